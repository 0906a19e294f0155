"""The scheduler's filters over a snapshot: which nodes accept a pod, and where evicted pods would be placed."""
