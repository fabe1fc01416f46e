"""Stage score: every image by every NR-IQA metric, resumable, the same scores however they are computed."""
