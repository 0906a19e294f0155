"""Pydantic models of the answers below ``/v1`` and of the extender protocol, one module per resource.

Models of requests live in `webhook.endpoints`.
"""
