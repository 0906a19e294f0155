"""Works: the plan of a binding's Works, their records, provenance and status, and checks after a hub restore."""
