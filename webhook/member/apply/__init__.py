"""Apply of one manifest: comparison, three-way merge or server-side apply, and contention with other writers.

Also the order of kinds.
"""
