"""Views of a run: its situation, its timeline, its metrics, and its verdict for the member gate."""
