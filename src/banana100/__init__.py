"""Banana100: images rot under repeated AI replication, and no-reference image-quality metrics do not notice."""
