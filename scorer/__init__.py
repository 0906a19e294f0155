"""The engine: everything that is true without a network. Values in, values out."""
