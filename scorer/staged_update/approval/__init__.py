"""Approvals of a stage: approval requests, and the analysis that may approve one instead of a person."""
