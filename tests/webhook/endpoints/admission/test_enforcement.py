"""Deletions of nodes over the wire: the path of their own, and the shape of a refusal."""

from tests.webhook.endpoints.admission.guarded_pool import deletion, guarded

PATH = "/validate/disruption?timeout=30s"


async def test_a_refusal_is_a_status_with_its_rule_for_the_audit_log():
    async with guarded(enforce_budgets=True) as port, port.dial() as connection:
        answer = await connection.post(PATH, deletion())
    response = answer.json["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (200, "one", False)
    assert response["auditAnnotations"] == {"rules": "disruption-budget"}
    status = response["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["details"] == {"name": "n1", "group": "", "kind": "Node"}
    assert 'deleting Node "n1" exceeds' in status["message"]
    assert "2026-06-10T17:00:00Z" in status["message"]


async def test_where_it_is_not_switched_on_the_path_allows_everything():
    async with guarded() as port, port.dial() as connection:
        answer = await connection.post(PATH, deletion())
    assert answer.json["response"] == {"uid": "one", "allowed": True}


async def test_who_is_exempt_may():
    async with guarded(enforce_budgets=True, enforcement_exempt_users=("jane",)) as port, port.dial() as connection:
        refused = await connection.post(PATH, deletion())
        allowed = await connection.post(PATH, deletion(userInfo={"username": "jane"}))
    assert [answer.json["response"]["allowed"] for answer in (refused, allowed)] == [False, True]


async def test_where_nobody_knows_any_budgets_the_path_allows_everything(port):
    async with port.dial() as connection:
        answer = await connection.post(PATH, deletion())
        assert (await connection.get(PATH)).status == 405
    assert answer.json["response"] == {"uid": "one", "allowed": True}
