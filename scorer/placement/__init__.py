"""Scheduling of placements: decisions, records, the trace."""
