"""Snapshots: numbered versions of selected resources, policies and overrides; when one is created and deleted."""
