"""Settings: the operator's decisions, read once from the environment and options.

Nothing else reads the environment.
"""
