"""Read-only views of the hub: clusters, placements, runs, budgets, history, and the stream that announces changes."""
