"""Our two webhook configurations on the hub: their caBundle, the paths they call, and whether they still enforce."""
