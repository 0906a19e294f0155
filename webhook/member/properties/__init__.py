"""Properties that a heartbeat reports: resource usage, node counts, cost, and the external property provider."""
