"""The cluster as a snapshot: nodes, NodeClaims, NodePools and pods, and their parsers. No decisions."""
