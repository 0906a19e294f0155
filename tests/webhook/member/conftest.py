"""Fixtures of several tests of the agent."""

import pytest

from scorer.api.kinds import NAMESPACE
from tests.webhook.member.hub_and_member import SPACE, Cluster, namespace


@pytest.fixture
async def cluster():
    """A hub with the namespace of a member, and that member."""
    cluster = Cluster()
    await cluster.hub.create(NAMESPACE, namespace(SPACE))
    yield cluster
    cluster.hub.close()
    cluster.member.close()
