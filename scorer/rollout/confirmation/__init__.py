"""Confirmation of removals: which effects on members need one, what it names, and when it counts.

Pure functions, shared by admission and the loop.
"""
