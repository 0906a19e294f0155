"""Simulated members and nodes: their agents, their controllers and the annotations that script them.

The hub does not depend on it.
"""
