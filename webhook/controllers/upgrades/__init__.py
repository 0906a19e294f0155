"""Cluster upgrade runs, their plans and profiles, without the calls to back ends (`upgraders`)."""
