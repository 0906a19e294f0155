"""Versions of Kubernetes and of node images: how they compare, what catalogs publish, and which image a pool gets."""
