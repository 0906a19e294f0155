"""HTTP below any Kubernetes API: addresses, sessions, JSON bodies and guarded writes. Nothing here knows a kind."""
