"""What may be disrupted now: nodes of pools, member clusters, the budgets that decide, and what is reserved."""
