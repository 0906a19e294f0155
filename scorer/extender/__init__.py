"""The scheduler extender: which nodes a pod may go to, and how much each is liked, by what the fleet says."""
