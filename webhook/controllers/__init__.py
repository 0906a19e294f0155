"""The reconcile loop: one module per reconciled kind; controllers read, ask the engine, and write."""
