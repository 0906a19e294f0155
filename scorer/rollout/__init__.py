"""Rolling a placement out: snapshots, bindings, the RollingUpdate plan, Works, and the status of each.

Source: docs/specifications/rollout.md.
"""
