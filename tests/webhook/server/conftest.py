"""A server in this process, as the tests of the handlers have it."""

from tests.webhook.endpoints.conftest import launch, port, review_bytes

__all__ = ["launch", "port", "review_bytes"]
