"""What an API server says of rights; `e2e/cli/test_doctor.py` asks a real one."""

import pytest

from tests.webhook.doctor.empty_hub import EmptyHub
from webhook.doctor.reviews import denied, groups_of
from webhook.doctor.rights import Right
from webhook.kube.ports import ForbiddenError, UnavailableError

NEEDED = {Right("", "get", "", "pods"), Right("quay", "update", "", "secrets", "ca"), Right("", "get", "", "/readyz")}


async def test_what_is_allowed_is_not_denied():
    assert await denied(EmptyHub(), "bob", NEEDED) == []


async def test_everything_may_be_denied():
    assert set(await denied(EmptyHub(subjectaccessreviews={"status": {"allowed": False}}), "bob", NEEDED)) == NEEDED


async def test_who_may_not_ask_hears_nothing():
    assert await denied(EmptyHub(subjectaccessreviews=ForbiddenError("no")), "bob", NEEDED) is None


async def test_a_server_that_does_not_answer_is_an_error():
    with pytest.raises(UnavailableError):
        await denied(EmptyHub(subjectaccessreviews=UnavailableError("later")), "bob", NEEDED)


def test_groups_are_those_of_a_users_name():
    assert groups_of("bob") == ["system:authenticated"]
    account = groups_of("system:serviceaccount:quay:serve")
    assert account == ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:quay"]
