"""Admission: reviews in, verdicts out; what is judged and how is in the registry."""
