"""What cannot be done yet."""

from datetime import timedelta


class RetryError(Exception):
    """Try again later; nothing is wrong with the object.

    Args:
        message: Why.
        after: How long to wait; None: as the queue's backoff says.
    """

    def __init__(self, message: str, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after
