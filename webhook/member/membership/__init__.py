"""Joining, heartbeats and leaving.

The agent's identity and token, the record of the owning hub, and the hub's view of this member.
"""
