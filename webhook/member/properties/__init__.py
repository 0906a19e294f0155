"""Properties that a heartbeat reports: resource usage, node counts, prices, and the external property provider."""
