"""Live checks: warnings that depend on other objects on the hub. They never deny."""
