"""Disruption of nodes: budgets of node pools, and what they allow."""
