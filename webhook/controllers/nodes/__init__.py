"""Disruption of nodes by pool: planning, reservation, taints, drain, replacement, and reports of blocked pools.

A hub and a member run the same controllers.
"""
