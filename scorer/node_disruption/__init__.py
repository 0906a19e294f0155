"""Voluntary disruption of nodes: which nodes go now and in the days to come, in what order, and why others stay."""
