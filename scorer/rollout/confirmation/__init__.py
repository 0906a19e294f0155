"""Confirmation of removals: which effects on members need one, what it names, and when it counts.

Pure. Admission and the loop judge by the same functions.
"""
