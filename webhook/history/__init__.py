"""History: decisions, rollouts, actions of users, refusals and gate answers, kept for days in ConfigMaps of the hub."""
