"""The embedded store: API-server semantics over SQLite, its REST interface, and simulated members."""
