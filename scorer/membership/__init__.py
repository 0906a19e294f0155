"""Members of the fleet, as the hub sees them: what it keeps for each, what it knows of each, how they leave."""
