"""Models of `cluster.kubernetes-fleet.io`: member clusters, and the scores that others compute for them."""
