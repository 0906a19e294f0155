"""What the operator decides, read once; nothing else looks at the environment."""
