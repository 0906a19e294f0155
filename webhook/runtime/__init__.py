"""The machine that a process runs on: its clock, bounded file reads, and the installed distribution.

Nothing here knows Kubernetes. Every command loads these modules.
"""
