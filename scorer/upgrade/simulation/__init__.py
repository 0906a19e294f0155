"""A simulated hub and back end, in which the real engine evaluates a run on a simulated clock."""
