"""Available instance types with their prices, and the new nodes that a NodePool can launch from them.

The placement of pods on them is in ``scheduling``.
"""
