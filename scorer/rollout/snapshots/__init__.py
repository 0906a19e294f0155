"""Snapshots: numbered versions of selected resources, policies and overrides, and when they are created and deleted."""
