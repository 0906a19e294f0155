"""Status of placements and bindings: conditions, failures, stalled rollouts, and copies for users.

The status of a Work is in ``works``.
"""
