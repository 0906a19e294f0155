"""Clusters of Cluster API with a topology: what they run, how an upgrade is ordered, and whether it is done."""
