"""Live checks: warnings that depend on what else is on the hub. They never deny."""
