"""Disruption of nodes: schedules, budgets and what they allow."""
