"""Confirmation of removals: the effects on members that need one, the digests that it names, and its validity.

Pure functions, shared by admission and the loop.
"""
