"""Verify: prove that files, tables, params, dvc.lock and ranking belong together, and name every row that does not."""
