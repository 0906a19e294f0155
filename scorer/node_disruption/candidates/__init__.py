"""Candidate nodes: what blocks them, what disrupting them costs and saves, and what disruption budgets allow.

Which candidates are disrupted is decided in ``methods``.
"""
