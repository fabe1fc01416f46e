"""Benchmarks of ranking: speed at full scale, and whether tests and intervals keep their promises."""
