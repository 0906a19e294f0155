"""Questions to the scheduler: score, filter, explain, and plan a change (``/v1/plan``).

Also the extender of kube-scheduler.
"""
