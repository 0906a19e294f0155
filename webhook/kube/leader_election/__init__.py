"""One Lease that decides which replica works on what: a single leader, or a shard for each replica."""
