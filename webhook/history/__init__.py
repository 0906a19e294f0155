"""What has happened, kept for days: decisions, rollouts, refusals and gate answers, as ConfigMaps of the hub."""
