"""The engine: everything that can be decided without a network. Values in, values out."""
