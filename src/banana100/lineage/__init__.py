"""Lineage: identities, and the row tables that everything else is generated from."""
