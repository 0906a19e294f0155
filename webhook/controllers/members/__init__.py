"""Member clusters on the hub: joining, heartbeats, leaving, the access of agents, and reservations of members.

A controller reserves a member before it disrupts it.
"""
