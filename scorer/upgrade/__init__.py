"""Upgrades of member clusters: runs, their strategy and record, the evaluation that advances them, and their plan."""
