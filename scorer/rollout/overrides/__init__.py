"""Overrides: their rules, the placements and clusters that they match, and their application to objects.

Their snapshots are in ``snapshots``.
"""
