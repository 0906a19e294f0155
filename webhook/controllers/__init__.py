"""The reconcile loop: one module per reconciled kind; controllers read, ask the engine, and write.

Each controller says by its `wiring` what wakes it; `assembly` lists them, `loop` runs them and knows none by name.
"""
