"""What a run shows to others: its situation, its timeline, its metrics, and its answer to the member gate."""
