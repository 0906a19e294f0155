"""Thin handlers, one module per family of URLs: parse, one call, answer."""
