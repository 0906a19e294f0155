"""Rights are asked about where somebody knows them, and where nobody does, nothing is needed."""

import pytest

from webhook.access.rights import UNDISPUTED, Access, Reviewed
from webhook.access.user import UserInfo
from webhook.admission.rights import AuthorRights, UndisputedRights
from webhook.validation.framework.context import Context

ANN = UserInfo("ann")
SELECTOR = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
WRITE = {
    "kind": {"group": "placement.kubernetes-fleet.io", "kind": "ClusterResourcePlacement"},
    "operation": "CREATE",
    "object": {"metadata": {"name": "web"}, "spec": {"resourceSelectors": [SELECTOR]}},
}


class Hub:
    """Knows that nobody may do anything, and who has asked."""

    def __init__(self):
        self.asked = []

    def cached(self, _user, _wanted):
        return None

    async def review(self, user, wanted):
        self.asked.append(user.username)
        return Reviewed(tuple(wanted))


@pytest.fixture
def hub():
    return Hub()


async def test_what_a_placement_selects_is_asked_about(hub):
    rights = AuthorRights(hub)
    assert rights.may_need(WRITE, ANN, Context())
    needed = rights.needed(WRITE, ANN, Context())
    assert Access("get", "", "namespaces", "shop") in needed
    assert (await rights.review(ANN, needed)).denied == needed
    assert hub.asked == ["ann"]


async def test_nobody_is_asked_about_nothing(hub):
    assert await AuthorRights(hub).review(ANN, ()) is UNDISPUTED
    assert hub.asked == []


async def test_where_nobody_knows_rights_nothing_is_needed():
    rights = UndisputedRights()
    assert not rights.may_need(WRITE, ANN, Context())
    assert rights.needed(WRITE, ANN, Context()) == ()
    assert await rights.review(ANN, [Access("get", "", "namespaces", "shop")]) is UNDISPUTED
