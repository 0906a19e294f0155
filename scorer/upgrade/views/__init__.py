"""Views of a run: its situation, its timeline, its metrics, and its answer to the member gate."""
