"""Removals of content from members: those that are pending, and their confirmation."""
