"""Staged updates: a run, its plan and record, its approvals and its execution, and the views on it.

Source: docs/specifications/staged-updates.md.
"""
