"""Access to the member's API server: the port and its implementation, list and watch, Events, the readiness probe."""
