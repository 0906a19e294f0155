"""``/v1/gate``: whether nodes or a member may be disrupted now, and reservations.

HTTP handlers around the decisions of `webhook.gate`.
"""
