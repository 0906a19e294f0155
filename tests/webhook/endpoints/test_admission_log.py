"""``/v1/admission-log``: who is told of what."""

from tests.webhook.endpoints.asking import get
from webhook.access.rights import Access

POOL = {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"}


async def refuse(port, review_bytes, **request):
    """Ask for a placement that has no spec."""
    document = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement"}
    async with port.dial() as connection:
        answer = await connection.post(
            "/validate", review_bytes(object=document | {"metadata": {"name": "payments"}}, **request)
        )
        assert not answer.json["response"]["allowed"]


async def test_a_refusal_is_remembered(port, review_bytes):
    await refuse(port, review_bytes)
    await refuse(port, review_bytes, userInfo={"username": "bob"}, dryRun=True)
    answer = (await get(port, "/v1/admission-log")).json
    assert [(item["user"], item["verdict"], item["dryRun"]) for item in answer["items"]] == [
        ("bob", "refused", True),
        ("ann", "refused", False),
    ]
    assert answer["items"][0]["kind"] == "ClusterResourcePlacement"
    assert answer["items"][0]["messages"]


async def test_the_log_comes_in_pages_the_latest_first(port, review_bytes):
    for name in ("a", "b", "c"):
        await refuse(port, review_bytes, name=name)
    first = (await get(port, "/v1/admission-log?limit=2")).json
    second = (await get(port, f"/v1/admission-log?limit=2&continue={first['continue']}")).json
    assert [[item["name"] for item in page["items"]] for page in (first, second)] == [["c", "b"], ["a"]]
    assert second["continue"] == ""


class Unable:
    """May ask everything, and list nothing but NodePools."""

    async def may(self, user, wanted):
        return not isinstance(wanted, Access) or wanted.resource == "nodepools"


async def test_who_may_not_list_a_kind_is_not_told_of_its_objects(launch, review_bytes):
    async with launch(authorizer=Unable()) as port:
        await refuse(port, review_bytes)
        assert (await get(port, "/v1/admission-log")).json["items"] == []
