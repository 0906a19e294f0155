"""Admission rules: pure, one module per family of kinds."""
