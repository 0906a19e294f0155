"""Objects in memory, as an informer keeps them, and the writes that go through the cache.

Rules for one kind do not belong here.
"""
