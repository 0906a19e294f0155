"""Files that a command reads: which ones, the objects in them, and the line of a field.

Nothing here asks a hub or evaluates an object.
"""
