"""A cluster as Karpenter leaves it: its definitions, its pools and claims, and nodes that kwok plays."""
