"""Controllers of one placement: selection, scheduling, overrides, bindings, rollout, Works, evictions and status.

Staged update runs live in `webhook.controllers.staged_updates`.
"""
