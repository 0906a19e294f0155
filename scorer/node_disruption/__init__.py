"""Disruption of nodes by choice: what has drifted."""
