"""Lint reports deletions on members that do not leave from the one module that may."""

import pytest

from tests.contracts.member_deletions import REMOVAL, main, problems


@pytest.mark.parametrize(
    "line",
    [
        "await member.delete(kind, key)",
        "gone = self._member.delete",
        "await server.request('DELETE', path)",
        "getattr(member, 'delete')(kind, key)",
        "from webhook.member.deletion.removal import remove_content",
        "from webhook.member.deletion import removal",
        "import webhook.member.deletion.removal",
    ],
)
def test_a_deletion_elsewhere_is_reported(line):
    assert [found.split(": ")[0] for found in problems("webhook/member/apply/steps.py", f"x = 1\n{line}\n")] == [
        "webhook/member/apply/steps.py:2"
    ]


def test_where_it_belongs_it_is_not():
    assert not list(problems(REMOVAL, "await member.delete(kind, key)\n"))
    assert not list(
        problems("webhook/member/works/reconciler.py", "from webhook.member.deletion.removal import remove_content\n")
    )


def test_deletions_on_the_hub_are_another_matter():
    assert not list(problems("webhook/embedded/simulation/members.py", "await self._hub.delete(MEMBER_CLUSTER, key)\n"))


def test_there_is_none_now():
    assert main() == 0
