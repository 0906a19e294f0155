"""The engine: pure functions from values to decisions, without I/O."""
