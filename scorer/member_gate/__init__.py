"""Disruption of member clusters: what holds a member."""
