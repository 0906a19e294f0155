"""The controller runtime: work queue with backoff, results and errors, watches, metrics hooks and failure reports.

The logic of a reconciled kind does not belong here.
"""
