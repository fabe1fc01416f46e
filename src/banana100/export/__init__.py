"""Export: the lineage in other people's formats, made from the tables alone; and the images with it, for `hf`."""
