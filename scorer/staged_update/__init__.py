"""Staged updates: what a stage allows."""
