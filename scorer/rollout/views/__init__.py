"""Views for users: the tree, the timeline and the preview of a rollout. They make no decisions."""
