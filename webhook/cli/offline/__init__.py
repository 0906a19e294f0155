"""A hub made of files: its admission, its fleet, its plans and its node pools.

Commands that accept ``-f`` instead of a hub call these modules.
"""
