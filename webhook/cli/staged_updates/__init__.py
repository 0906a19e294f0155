"""Commands for staged update runs: start, stop, resume, undo, show and wait.

Approvals live in `webhook.cli.approvals`.
"""
