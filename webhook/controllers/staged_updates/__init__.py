"""Staged update runs: their controller, and the automatic approval of a stage by a query or an object's status."""
