"""Objects in SQLite with the semantics of an API server: journal, watches, kinds, transactions, garbage collection.

No module here knows HTTP.
"""
