"""Stage report: one page that shows the rot and the verdicts, from rank's outputs and the previews alone."""
