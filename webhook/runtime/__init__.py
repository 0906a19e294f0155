"""The machine of a process: its clock, bounded file reads, YAML, and the installed distribution.

No module here depends on Kubernetes.
"""
