"""Typed reads of the cache: placements, overrides, maintenance windows and upgrade runs.

Controllers and answers share them.
"""
