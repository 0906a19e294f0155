"""What is told of the process: metrics, logs, health."""
