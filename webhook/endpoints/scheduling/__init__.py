"""Questions to the scheduler: score, filter, explain, and what a change would do (``/v1/plan``).

Also the extender of kube-scheduler.
"""
