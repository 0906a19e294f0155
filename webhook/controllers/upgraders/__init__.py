"""Upgrade back ends (Cluster API, hand-off, simulated), their interface, and the client that calls them."""
