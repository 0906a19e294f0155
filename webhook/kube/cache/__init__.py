"""In-memory objects, as an informer keeps them, and writes through the cache.

Rules for one kind do not belong here.
"""
