"""Members of the fleet, as the hub sees them: what it keeps for each, what it believes, how they leave."""
