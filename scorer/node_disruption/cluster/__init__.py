"""The cluster as a snapshot: nodes, NodeClaims, NodePools and pods, and how they are read; no decisions."""
