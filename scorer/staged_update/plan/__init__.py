"""The plan of a run: its target clusters and stages, fixed at initialization and validated before every later pass."""
