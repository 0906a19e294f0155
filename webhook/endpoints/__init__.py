"""HTTP handlers, one module per family of URLs: parse, make one call, respond."""
