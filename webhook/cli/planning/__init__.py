"""Commands that explain a placement decision, or plan it and show the plan."""
