"""Disruption of member clusters: what holds one."""
