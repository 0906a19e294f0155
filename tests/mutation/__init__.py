"""A random sample of mutants, and how many of them the unit tests detect: ``python -m tests.mutation``."""
