"""Models of `placement.kubernetes-fleet.io`.

Placements, snapshots, bindings, Works, overrides, evictions, staged updates.
"""
