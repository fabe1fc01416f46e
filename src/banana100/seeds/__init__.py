"""Stage select_seeds: from photographs to a small set of seeds that differ as much as possible."""
