"""The operations of the interface: method, path, request, response and problems of each.

The OpenAPI document is assembled in `webhook.description.document`.
"""
