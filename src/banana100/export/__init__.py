"""Export: the lineage in other people's formats, made from the tables alone."""
