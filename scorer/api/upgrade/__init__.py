"""The kinds of cluster upgrades."""
