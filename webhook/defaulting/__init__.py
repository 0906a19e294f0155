"""Defaults that the mutating hook fills in: pure, one module per family of kinds."""
