"""Benchmarks of the scoring engine: `python -m benchmarks.scoring`."""
