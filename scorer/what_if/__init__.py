"""What would change if something else changed: the whole of the engine on a hub that is only thought of."""
