"""``harbormaster confirm``: confirm removals of content from members."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import click

from scorer.api.family import PLACEMENTS
from scorer.api.kinds import NODE_POOL, find_kind
from scorer.api.unstructured.documents import is_deleting
from scorer.api.unstructured.json_object import format_time
from scorer.rollout.confirmation.digests import Confirmation
from scorer.rollout.confirmation.member_contents import describe_contents
from scorer.rollout.views.removals import UnconfirmedRemoval
from webhook.actions.removals import confirmation_patch
from webhook.cli.errors import UserError
from webhook.cli.hub.client import Client, ResourcePath, retry_on_conflict
from webhook.cli.hub.resource_arguments import parse_reference, parse_resources
from webhook.cli.options.base import hub_namespace_option, is_agreed, not_empty, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.removals.effects import PendingGroup, recorded, would_remove
from webhook.cli.text.output import print_line
from webhook.runtime.clock import utc_now

HELP: Final = """Confirm the removal of content from members.

For a placement (NAME, crp/NAME, rp/NAMESPACE/NAME), confirms its pending removals, or its deletion if none are pending.
For any other object, confirms the removals that its deletion would cause, and you then delete the object. The
confirmation is stored in the placements or, for a NodePool, in the NodePool. Shows the effect and asks first. With
--digest, confirms the removal that a refusal has named.

A confirmation is valid for 24 h, and only for the effect that is shown. It requires the verb confirmremoval on the
placement or NodePool. If the effect is limited to one namespace, the verbs delete and place on that namespace are
sufficient.

Removing a namespace also deletes its volume claims and the objects of other owners in it. The command shows their
number as last counted by the agents, with the age of the count, or as unknown.

\b
Examples:
  harbormaster confirm namespace/shop            then: kubectl delete namespace shop
  harbormaster confirm crp/shop                  pending removals of this placement
  harbormaster confirm crp/shop --digest 5f3a9c1e0b7d4a62c8f1 --yes
  harbormaster confirm rp/team-a/web --abandon   finish its deletion, and leave the content on the members

\b
Exit codes:
  0  confirmed, or nothing needs confirmation
  1  no such object, no right to confirm, declined, or an unreachable hub
"""


@click.command("confirm", help=HELP, short_help="Confirm the removal of content from members.")
@click.argument("words", nargs=-1, required=True, metavar="PLACEMENT|KIND/NAME", shell_complete=tab("objects"))
@click.option(
    "--digest",
    "digests",
    default="",
    callback=not_empty,
    metavar="DIGEST,...",
    help="Confirm only the removals with these digests, separated by commas.",
)
@click.option("--abandon", is_flag=True, help="For a placement being deleted: leave its content on the members.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@hub_namespace_option
@hub_options
def command(
    words: Sequence[str], digests: str, namespace: str | None, hub: HubOptions, *, abandon: bool, yes: bool
) -> int:
    """Confirm removals. Raises `click.UsageError`."""
    if not all(words):
        raise click.UsageError("'' is empty")
    if abandon and digests:
        raise click.UsageError("--abandon cannot be used with --digest")
    return run(_confirm(hub, words, digests, namespace, abandon=abandon, yes=yes))


async def _confirm(
    hub: HubOptions, words: Sequence[str], digests: str, namespace: str | None, *, abandon: bool, yes: bool
) -> int:
    async with Client(hub.find()) as client:
        place, resource = await _place(client, words, namespace)
        is_placement = place.kind in PLACEMENTS
        if abandon:
            return await _abandon(client, place, resource, yes=yes)
        if digests and not is_placement and place.kind != NODE_POOL:
            advice = "Give the object that the refusal names"
            raise UserError(f"--digest: {resource} is neither a placement nor a NodePool. {advice}")
        if digests:
            digest_set = _parsed(digests)
            groups = [PendingGroup(resource, each, "removal selected by --digest") for each in sorted(digest_set)]
        elif is_placement:
            document = await client.get(place)
            recorded_removals = await recorded(client, {**document, "kind": place.kind.kind})
            groups = [_pending(recorded_removals["placement"], each) for each in recorded_removals["removals"]]
            groups = groups if groups or is_deleting(document) else await would_remove(client, place)
        else:
            groups = await would_remove(client, place)
        if not groups:
            print_line(f"{resource}: nothing needs confirmation")
            return 0
        for group in groups:
            print_line(f"{group.ref}: {group.effect} ({group.digest})")
        if not is_agreed("Confirm these removals?", yes=yes):
            return 1
        by_ref: dict[str, set[str]] = defaultdict(set)
        for group in groups:
            by_ref[group.ref].add(group.digest)
        await _write(client, by_ref)
    return 0


def _pending(ref: str, removal: UnconfirmedRemoval) -> PendingGroup:
    on_members = describe_contents(removal["onMembers"], utc_now())
    effect = f"{removal['effect']}, {on_members}" if on_members else removal["effect"]
    return PendingGroup(ref, removal["digest"], effect)


async def _place(client: Client, words: Sequence[str], namespace: str | None) -> tuple[ResourcePath, str]:
    """Return the path of the object that the user names, and its name for messages. A name alone is a placement.

    Raises:
        UserError: The user names no object, or several.
    """
    kind = find_kind(words[0].partition("/")[0])
    if (len(words) == 1 and "/" not in words[0]) or kind in PLACEMENTS:
        reference = parse_reference(words, namespace, default=client.namespace)
        return ResourcePath(reference.kind, reference.namespace or None, reference.name), str(reference)
    targets = await parse_resources(words, client)
    if len(targets) != 1 or not targets[0].name:
        raise UserError(f"{' '.join(words)}: expected one object, as KIND/NAME")
    return targets[0].place(namespace, client.namespace), "/".join(words)


def _parsed(digests: str) -> frozenset[str]:
    try:
        return Confirmation.parse(f"{digests}@{format_time(utc_now())}").digests
    except ValueError as error:
        raise UserError(f"--digest: {error}") from error


async def _abandon(client: Client, place: ResourcePath, resource: str, *, yes: bool) -> int:
    document = await client.get(place)
    if place.kind not in PLACEMENTS or not is_deleting(document):
        raise UserError(f"--abandon: {resource} is not a placement that is being deleted")
    print_line(f"{resource}: its content remains on the members, unmanaged")
    if not is_agreed("Finish the deletion?", yes=yes):
        return 1
    strategy = {"deleteStrategy": {"propagationPolicy": "Abandon"}}
    await client.patch(place, {"spec": {"strategy": strategy}})
    print_line(f"{resource}: content abandoned")
    return 0


async def _write(client: Client, by_ref: Mapping[str, set[str]]) -> None:
    for ref, digests in sorted(by_ref.items()):
        place = (await _place(client, (ref,), None))[0]
        expiry = await retry_on_conflict(partial(_annotate, client, place, frozenset(digests)))
        print_line(f"{ref} confirmed until {expiry}")


async def _annotate(client: Client, place: ResourcePath, digests: frozenset[str]) -> str:
    """Add *digests* to the confirmation on an object, and return when it expires."""
    confirmation = confirmation_patch(await client.get(place), digests, utc_now())
    await client.patch(place, confirmation.patch)
    return format_time(confirmation.expiry)
