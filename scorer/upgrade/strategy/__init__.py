"""A ClusterUpgradeStrategy: its limits as numbers, the members of its groups, and its status."""
