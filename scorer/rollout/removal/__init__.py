"""Removal: eviction, deletion of bindings and Works, and the mark that authorizes it.

Also the wait until a placement is removed from its members.
"""
