"""Upgrades of member clusters: runs, their strategy and record, the evaluation that moves them on, and their plan."""
