"""When a certificate is due for renewal.

Source: serving.md 4.2 and 4.3.
"""

from datetime import datetime


def renewal_time(not_before: datetime, not_after: datetime) -> datetime:
    """Return the instant at two thirds of a certificate's life."""
    return not_before + (not_after - not_before) * 2 / 3
