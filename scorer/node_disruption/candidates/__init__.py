"""Candidate nodes: what blocks them, what disrupting them costs and saves, and what disruption budgets allow.

``methods`` decides which candidates are disrupted.
"""
