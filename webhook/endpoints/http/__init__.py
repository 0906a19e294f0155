"""The HTTP layer below all handlers, without any URL.

Access control, request bodies and their limits, query parameters, pagination, problem details and response headers.
"""
