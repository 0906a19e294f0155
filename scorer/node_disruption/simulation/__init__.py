"""The planner on a simulated clock: what happens to a cluster over days, and how that is shown."""
