"""Questions to the scheduler: ``/v1/score``, ``/v1/filter``, ``/v1/explain``, ``/v1/plan`` and ``/v1/render``.

Also the extender of kube-scheduler.
"""
