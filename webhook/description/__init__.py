"""The interface described: models of all answers, the table of operations, and the OpenAPI document made of them.

Nothing of this runs while harbormaster serves: the document is made by ``python -m webhook.description``, kept as
``webhook/openapi.json`` and served from there.
"""
