"""Admission: verdicts on reviews, based on the registry of kinds."""
