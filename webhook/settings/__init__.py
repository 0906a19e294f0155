"""Settings: the operator's decisions, read once from the environment and options.

Other packages read only variables of other programs, see `webhook.settings.environment`.
"""
