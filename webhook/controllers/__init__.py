"""Controllers of the hub and the loop that runs them.

Each controller reads from the cache, calls one planner of `scorer`, and writes. It declares in its `wiring` what
enqueues its keys. `assembly` lists the controllers. `machinery.loop` runs them and imports none of them.
"""
