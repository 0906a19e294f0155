"""Rules on placements and the kinds around them: overrides, envelopes, evictions and disruption budgets."""
