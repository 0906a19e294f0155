"""Checks of ``harbormaster doctor`` on a hub, and their findings."""
