"""The scheduler extender: to which nodes a pod may go, and how they score, by the state of the fleet."""
