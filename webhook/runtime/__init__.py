"""The machine of a process: its clock, bounded file reads, and the installed distribution.

No module here depends on Kubernetes. Every command loads these modules.
"""
