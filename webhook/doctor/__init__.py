"""What ``harbormaster doctor`` looks at on a hub, and how it judges what it finds."""
