"""Staged updates: what a stage lets happen."""
