"""Voluntary disruption of nodes: which ones a cluster's NodePools have disrupted now and in the days to come, and why not others."""
