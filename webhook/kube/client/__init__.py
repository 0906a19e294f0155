"""Requests to an API server: paths, discovery, evictions and the hub store.

Decisions and cached state do not belong here.
"""
