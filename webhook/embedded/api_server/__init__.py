"""REST interface of the embedded store.

Handlers, discovery, OpenAPI, selectors, tables, watches and the admission chain.
"""
