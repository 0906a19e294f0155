"""HTTP below any Kubernetes API: addresses, sessions, JSON bodies and guarded writes. No module here knows a kind."""
