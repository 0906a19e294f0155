"""Accepted commands: their annotation on nodes, replacement NodeClaims, progress, conditions and Events."""
