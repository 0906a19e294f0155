"""Models of `upgrade.harbormaster.dev`: upgrade runs, strategies, gates, windows, profiles, requests and plans."""
