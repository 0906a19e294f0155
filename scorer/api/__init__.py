"""The API as it is on the wire: kinds, their models and values, and the CustomResourceDefinitions made from them.

Rules between fields live in `webhook.validation`.
"""
