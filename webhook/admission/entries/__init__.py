"""The entries of `webhook.admission.registry`, one module per group of kinds, imported when a kind is needed."""
