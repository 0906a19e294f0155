"""Views for users: the tree, the timeline and the preview of a rollout; they decide nothing."""
