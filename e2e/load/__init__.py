"""A hub under the load of a large fleet: reviews, questions, heartbeats and rollouts, all at once."""
