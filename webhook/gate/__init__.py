"""Disruption gates: nodes of pools, member clusters, their budgets, and reservations."""
