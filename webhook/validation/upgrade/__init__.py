"""Rules on the kinds of ``upgrade.harbormaster.dev``, one module per kind.

The API server also enforces some of them, by the schema and by CEL (`scorer.api.crd.upgrade_cel`). Errors from here
name the exact field. Rules that need other objects, the stored status or the user exist only here.

Source: docs/specifications/upgrade-runs.md 3 and 4; docs/specifications/serving.md 1.8, last row.
"""
