"""Karmada, from which applications move here: its definitions."""
