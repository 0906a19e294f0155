"""Admission: reviews in, verdicts out; the registry says which kinds are judged, and how."""
