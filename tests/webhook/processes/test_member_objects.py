"""What `join` makes for a member, and that `leave` knows all of it."""

from scorer.api.kinds import APPLIED_WORK
from webhook.kube.ports import Key
from webhook.member.membership.hub_secret import HubAccess
from webhook.processes.member_objects import (
    AGENT,
    DEPLOYMENT,
    account_of,
    hub_leftovers,
    is_from_join,
    member_cluster,
    member_leftovers,
    on_hub,
    on_member,
    secret,
    unmarked,
)

ACCESS = HubAccess("berlin", "uid", "harbor", "member-berlin", "token", "https://hub")


def keys(wanted):
    metadata = wanted.document["metadata"]
    return wanted.kind, Key(metadata["name"], metadata.get("namespace", ""))


def test_what_is_made_for_the_agent_is_marked_and_removed_again_in_reverse():
    """Not the definition, with which all that was placed would go, and not the namespace, which may hold more."""
    made = [wanted for wanted in on_member("quay") if is_from_join(wanted.document)]
    assert [*member_leftovers("quay")] == [
        (DEPLOYMENT, Key(AGENT, "quay")),
        *(keys(wanted) for wanted in reversed(made)),
    ]
    stays = [keys(wanted)[1].name for wanted in on_member("quay") if not is_from_join(wanted.document)]
    assert stays == [APPLIED_WORK.resource, "quay"]
    assert is_from_join(secret(ACCESS, "quay").document)


def test_of_the_hub_all_is_removed_and_the_account_last():
    made = [*on_hub("berlin", "harbor")]
    assert all(is_from_join(wanted.document) for wanted in made)
    assert [*hub_leftovers("berlin", "harbor")] == [keys(wanted) for wanted in reversed(made)]
    assert [*hub_leftovers("berlin", "harbor")][-1][1] == Key("member-berlin", "harbor")


def test_no_member_gets_the_account_of_a_process_of_ours():
    """A member may be called like one: it would act with the rights of the loop."""
    assert account_of("harbormaster-reconcile") == "member-harbormaster-reconcile"
    identity = member_cluster("harbormaster-reconcile", "harbor", {})["spec"]["identity"]
    assert identity["name"] == "member-harbormaster-reconcile"


def test_what_was_there_before_gets_no_mark_and_keeps_its_other_labels():
    marked = secret(ACCESS, "quay").document
    assert "labels" not in unmarked(marked)["metadata"]
    labelled = {**marked, "metadata": {**marked["metadata"], "labels": {**marked["metadata"]["labels"], "tier": "1"}}}
    assert unmarked(labelled)["metadata"]["labels"] == {"tier": "1"}
    assert not is_from_join(unmarked(marked))
    assert is_from_join(marked)
