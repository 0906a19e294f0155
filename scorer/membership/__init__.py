"""Members of the fleet on the hub: the objects that it keeps for a member, the member's status, and its departure."""
