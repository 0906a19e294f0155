"""Numbers of things in words, for what people are told."""


def in_words(count: int, what: str) -> str:
    """Return how many of something there are, such as ``1 member`` and ``2 members``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
