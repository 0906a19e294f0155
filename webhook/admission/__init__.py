"""Admission: verdicts on reviews, by the registry of kinds."""
