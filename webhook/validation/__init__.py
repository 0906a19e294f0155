"""Admission rules: pure functions, one module per kind, on a framework that all of them share."""
