"""API servers: the port that every store implements, clients, the cache of a store, and state shared by replicas."""
