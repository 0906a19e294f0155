"""Voluntary disruption of nodes: what has drifted."""
