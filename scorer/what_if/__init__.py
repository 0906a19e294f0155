"""Effects of hypothetical changes to the hub, computed by the complete engine."""
