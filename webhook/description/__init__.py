"""The description of the API: the table of operations, and the OpenAPI document generated from it.

Responses are typed where they are built, requests where they are parsed. The document is generated from these types.

The server runs none of this code: ``python -m webhook.description`` generates ``webhook/openapi.json``, which the
server sends.
"""
