"""Members of a run: what is read from a MemberCluster, its maintenance windows, and the order of members in a group."""
