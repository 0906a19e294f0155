"""Commands about disruption: budgets, the gate, and simulations of node disruption.

Evictions from a whole member live in `webhook.cli.members`.
"""
