"""The scheduler extender: filter and score the nodes for a pod by the state of the fleet."""
