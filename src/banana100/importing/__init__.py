"""Import: images that were made elsewhere become campaigns: replicas and lineage like all others."""
