"""Clusters of Cluster API with a topology: their versions, the write that starts an upgrade, and its progress."""
