"""History: decisions, rollouts, refusals and gate answers, kept for days in ConfigMaps of the hub."""
