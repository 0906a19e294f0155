"""Voluntary disruption of nodes: which ones NodePools have disrupted now and in the days to come, and why not others."""
