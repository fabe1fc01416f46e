"""Stage rank: does each metric score degraded images below clean ones? From tables alone, never from images."""
