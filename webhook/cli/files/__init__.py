"""Files that a command reads: the search for them, the objects in them, and the positions of fields.

No module here sends requests to a hub or evaluates an object.
"""
