"""Upgrades of clusters: what an upgrade lets happen."""
