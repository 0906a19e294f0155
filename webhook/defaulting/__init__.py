"""Defaults that the mutating webhook fills in: pure, one module per family of kinds."""
