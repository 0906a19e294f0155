"""The interface described: the table of operations, and the OpenAPI document made of it.

Answers are typed where they are built, requests where they are read; the document is made from these types.

Nothing of this runs while harbormaster serves: the document is made by ``python -m webhook.description``, kept as
``webhook/openapi.json`` and served from there.
"""
