"""Rules on the kinds of ``upgrade.harbormaster.dev``, one module per kind.

The API server checks part of them itself, by the schema and by CEL (`scorer.api.crd.upgrade_cel`); here every rule
names the exact field, and the rules that need other objects, the stored status or the user are here alone.

Source: upgrade-runs.md 3 and 4; serving.md 1.8, last row.
"""
