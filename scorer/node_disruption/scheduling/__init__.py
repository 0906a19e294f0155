"""The scheduler's filters over a snapshot: which nodes can take a pod, and where the pods of removed nodes would go."""
