"""What the process tells about itself: metrics, logs, health."""
