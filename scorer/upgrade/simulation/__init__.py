"""A simulated hub and back end. The real engine evaluates a run against them on a simulated clock."""
