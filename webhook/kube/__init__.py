"""API servers: the ports every store keeps to, and the cache in front of them."""
