"""Voluntary disruption of nodes: which nodes a pass disrupts, how its commands are executed, and a simulation."""
