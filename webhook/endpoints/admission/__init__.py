"""The admission webhooks and their dry run below ``/v1``.

Authentication of the API server, limits for other senders, the fast path. The rules are in `webhook.admission`.
"""
