"""Ownership: the objects and the fields that belong to a cluster rather than to the author of a manifest."""
