"""Upgrades of clusters: what an upgrade run allows."""
