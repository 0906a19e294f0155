"""One Lease that assigns work to replicas: a single leader, or a shard for each replica."""
