"""Auto-upgrade profiles: the version that a profile targets, and the runs that it creates."""
