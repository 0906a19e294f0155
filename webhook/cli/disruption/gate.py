"""``harbormaster gate``: check on a hub or on files whether a disruption is allowed now, and if not, when."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from scorer.api.unstructured.json_object import JsonObject, format_time, parse_time
from scorer.api.values.quoting import printable
from webhook.cli.disruption.gate_drain import command as drain_command
from webhook.cli.disruption.options import (
    CountOptions,
    _DisruptionOptions,
    _InstantOptions,
    _ReservationOptions,
    count_options,
    reservation_options,
)
from webhook.cli.errors import UserError
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import take_reference
from webhook.cli.options.base import grouped, output_option, placement_namespace_option, repository_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Instant, in_zone, read_zone, zone_option
from webhook.cli.text.links import hyperlink, linked, url_of
from webhook.cli.text.output import print_document, print_table

SHORT: Final = "Check whether a disruption is allowed now, and if not, when."
REASONS: Final = ("Underutilized", "Empty", "Drifted", "Unhealthy", "Expired")
REFUSED: Final = 2
RESERVATION_HEADERS: Final = ("GATE", "OF", "FOR", "GRANTED", "HOLDER", "UNTIL", "ID")

_CODES: Final = """\b
Exit codes:
  0  allowed
  1  an error: no such object, a request that cannot be evaluated, an unusable file, or an unreachable hub
  2  not allowed now
"""
HELP: Final = f"""{SHORT}

Disruption of nodes may be blocked by the budgets of their NodePool, by pods and by annotations. Disruption of a member
cluster may be blocked by a rollout, an update run, an upgrade run, a closed maintenance window, a hold or another
disruption in progress.

The result reserves nothing: two concurrent callers may both be allowed. With --reserve and --holder, the permission is
reserved for you for the given number of seconds, and no other caller gets it.

\b
Examples:
  harbormaster gate disruption general --reason Drifted --count 2
  harbormaster gate disruption spot spot-1 --reason Drifted --reserve 600 --holder nightly-patch
  harbormaster gate rollout crp/payments bravelion
  harbormaster gate cluster-update bravelion
  harbormaster gate drain node-1 -f dump.yaml
  harbormaster gate list
  harbormaster gate release ID

{_CODES}"""
DISRUPTION_HELP: Final = f"""Check whether nodes of a NodePool may be disrupted.

POOL is a NodePool. Name the nodes to disrupt, in order of preference, or give only their number with --count. With -f,
evaluates files instead: the NodePool, and its Nodes, NodeClaims, Pods and PodDisruptionBudgets if the files have them.

\b
Examples:
  harbormaster gate disruption general --reason Drifted --count 2
  harbormaster gate disruption general general-1 general-2 --reason Empty --up-to
  harbormaster gate disruption general --reason Drifted --count 1 --now 2026-06-12T19:00:00Z
  harbormaster gate disruption general --reason Drifted --count 3 -f pools.yaml --total 40
  harbormaster gate disruption spot spot-1 --reason Drifted --reserve 600 --holder nightly-patch

{_CODES}"""
ROLLOUT_HELP: Final = f"""Check whether a placement may be changed on a member cluster.

PLACEMENT is NAME, crp/NAME or rp/NAMESPACE/NAME. With -n, NAME is a ResourcePlacement. CLUSTER is a member cluster.

\b
Examples:
  harbormaster gate rollout crp/payments bravelion
  harbormaster gate rollout rp/team-a/web bravelion --reserve 600 --holder nightly-patch

{_CODES}"""
UPDATE_HELP: Final = f"""Check whether a member cluster may be upgraded.

\b
Examples:
  harbormaster gate cluster-update bravelion
  harbormaster gate cluster-update bravelion --run spring --reserve 3600 --holder nightly-patch

{_CODES}"""
LIST_HELP: Final = """List reservations with their holders and expiry times.

The ID, which `harbormaster gate release` needs, is shown only for your own reservations. Reservations for placements
are shown only if you may list placements.

\b
Examples:
  harbormaster gate list
  harbormaster gate list -o json

\b
Exit codes:
  0  listed
  1  an unreachable hub, or no permission to list reservations
"""
RELEASE_HELP: Final = """Release a reservation.

Reservations of named nodes need no release once these nodes are being deleted: they are not counted twice. A
reservation that is not released expires. `harbormaster gate list` shows the IDs of your own reservations.

\b
Examples:
  harbormaster gate release ID

\b
Exit codes:
  0  released
  1  no such reservation, a reservation of another user, or an unreachable hub
"""

_WRITTEN: Final = {
    "pool": "POOL",
    "count": "--count",
    "now": "--now",
    "observed": "--total, --deleting, --not-ready",
    "placement": "PLACEMENT",
    "cluster": "CLUSTER",
    "run": "--run",
    "holder": "--holder",
    "ttlSeconds": "--reserve",
}
"""The command-line argument for each member of a question. For nodes, the error itself names the argument."""


@click.group("gate", help=HELP, short_help=SHORT)
def command() -> None:
    """Group the commands."""


@command.command("disruption", help=DISRUPTION_HELP, short_help="Check whether nodes of a NodePool may be disrupted.")
@grouped(
    "options",
    _DisruptionOptions,
    click.argument("pool", shell_complete=tab("pools")),
    click.argument("nodes", nargs=-1, metavar="[NODE]..."),
    click.option(
        "--reason", type=click.Choice(REASONS, case_sensitive=False), required=True, help="Reason for the disruption."
    ),
    click.option("--count", type=click.IntRange(min=0), metavar="K", help="Number of nodes, instead of their names."),
    click.option(
        "--class",
        "class_",
        type=click.Choice(["graceful", "eventual"]),
        default="graceful",
        show_default=True,
        help="Class of disruption. eventual does not wait for blocking pods if the NodeClaim has a "
        "terminationGracePeriod.",
    ),
    click.option("--up-to", is_flag=True, help="Allow fewer nodes if not all of them may be disrupted."),
)
@reservation_options
@grouped(
    "moment",
    _InstantOptions,
    click.option("--now", type=Instant(), help="Time of the disruption.  [default: now]"),
    zone_option,
)
@repository_option
@count_options(
    "With -f: the number of nodes of the pool.",
    "With -f: the number of nodes that are being deleted.",
    "With -f: the number of other nodes that are not ready.",
)
@output_option("text", "wide", "json", "yaml")
@hub_options
def disruption(
    options: _DisruptionOptions,
    reservation: _ReservationOptions,
    moment: _InstantOptions,
    files: Files,
    counts: CountOptions,
    output: str,
    hub: HubOptions,
) -> int:
    """Check whether nodes may be disrupted. Raises `click.UsageError`."""
    if bool(options.nodes) == (options.count is not None):
        raise click.UsageError("name the nodes, or give their number with --count")
    counts.check_whole()
    display_zone = read_zone(moment.zone)
    question = options.question()
    if moment.now is not None:
        question["now"] = moment.now.isoformat()
    if counts:
        parts = {"deleting": counts.deleting or 0, "notReady": counts.not_ready or 0}
        question["observed"] = {"total": counts.total, **parts}
    reservation.check(files)
    if files:
        hub.refuse_with_files()
        from webhook.cli.offline.pools import gate_answer, offline_pools

        return _show(gate_answer(offline_pools(load_known(files)), question, datetime.now(UTC)), output, display_zone)
    connection = hub.find()
    return _show(run(_of_hub(connection, "disruption", question, reservation)), output, display_zone)


@command.command("rollout", help=ROLLOUT_HELP, short_help="Check whether a placement may be changed on a cluster.")
@click.argument("placement", shell_complete=tab("placements"))
@click.argument("clusters", nargs=-1, required=True, metavar="CLUSTER", shell_complete=tab("clusters"))
@placement_namespace_option
@reservation_options
@zone_option
@output_option("text", "wide", "json", "yaml")
@hub_options
def rollout(
    placement: str,
    clusters: Sequence[str],
    namespace: str | None,
    reservation: _ReservationOptions,
    zone: str | None,
    output: str,
    hub: HubOptions,
) -> int:
    """Check whether a placement may be changed on a cluster. Raises `click.UsageError`."""
    display_zone, connection = read_zone(zone), hub.find()
    ref, names = take_reference([placement, *clusters], namespace, default=connection.namespace)
    if len(names) != 1:
        raise click.UsageError(f"expected one CLUSTER, not {' '.join(names) or 'none'}")
    reference = {"kind": ref.kind.kind, "name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    question = {"placement": {"ref": reference}, "cluster": names[0]}
    reservation.check()
    return _show(run(_of_hub(connection, "rollout", question, reservation)), output, display_zone)


@command.command("cluster-update", help=UPDATE_HELP, short_help="Check whether a member cluster may be upgraded.")
@click.argument("cluster", shell_complete=tab("clusters"))
@click.option(
    "--run",
    "run_name",
    metavar="NAME",
    shell_complete=tab("upgrades"),
    help="ClusterUpgradeRun to check for.  [default: the oldest unfinished one that includes the cluster]",
)
@reservation_options
@zone_option
@output_option("text", "wide", "json", "yaml")
@hub_options
def cluster_update(
    cluster: str, run_name: str | None, reservation: _ReservationOptions, zone: str | None, output: str, hub: HubOptions
) -> int:
    """Check whether a cluster may be upgraded."""
    question = {"cluster": cluster} | ({"run": run_name} if run_name else {})
    reservation.check()
    display_zone, connection = read_zone(zone), hub.find()
    return _show(run(_of_hub(connection, "cluster-update", question, reservation)), output, display_zone)


@command.command("list", help=LIST_HELP, short_help="List reservations with their holders and expiry times.")
@zone_option
@output_option("table", "json", "yaml")
@hub_options
def list_reservations(zone: str | None, output: str, hub: HubOptions) -> int:
    """List the reservations."""
    display_zone = read_zone(zone)
    answer = run(_list(hub.find()))
    if output != "table":
        print_document(answer, output)
        return 0
    if answer["items"]:
        print_table(RESERVATION_HEADERS, reservation_rows(answer["items"], display_zone))
    else:
        click.echo("No reservations found")
    for mistake in answer["unreadable"]:
        click.echo(f"warning: {printable(mistake)}", err=True)
    return 0


@command.command("release", help=RELEASE_HELP, short_help="Release a reservation.")
@click.argument("identity", metavar="ID", shell_complete=tab("reservations"))
@hub_options
def release(identity: str, hub: HubOptions) -> int:
    """Release a reservation."""
    run(_release(hub.find(), identity))
    click.echo("released")
    return 0


command.add_command(drain_command)


async def _of_hub(
    connection: HubConnection, gate: str, question: JsonObject, reservation: _ReservationOptions
) -> JsonObject:
    """Query one of the gates, also for a reservation. Raises `UserError`."""
    from webhook.cli.hub.answers import hub_answers
    from webhook.cli.hub.client import HubRefusedError

    try:
        async with hub_answers(connection) as hub:
            if reservation.seconds is None:
                return await hub.gate(gate, question)
            reservation_fields = {"holder": reservation.holder, "ttlSeconds": reservation.seconds}
            answer = await hub.reserve({"gate": gate, "question": question, **reservation_fields})
    except HubRefusedError as error:
        if error.answer is not None:
            return error.answer
        mistakes = [_mistake(pointer, detail) for pointer, detail in error.mistakes]
        raise UserError(mistakes or error.message) from error
    message = f"{_granted(answer) or 'nothing'} may be disrupted"
    reservation_part = {"id": answer["id"], "expires": answer["expires"]}
    return {"allowed": True, "granted": answer["granted"], "message": message, "reservation": reservation_part}


def _granted(reservation: JsonObject) -> str:
    """Return the nodes that a reservation grants: their number, or their names."""
    from scorer.node_budgets.wording import format_node_count

    grant = reservation["granted"]
    return format_node_count(grant) if isinstance(grant, int) else ", ".join(grant)


def _mistake(pointer: str, detail: str) -> str:
    """Return an error in the request as an error of the command line."""
    words = pointer.removeprefix("/question").split("/")
    location = _WRITTEN.get(words[1] if len(words) > 1 else "", "")
    return f"{location}: {detail}" if location else detail


async def _list(connection: HubConnection) -> JsonObject:
    from webhook.cli.hub.answers import hub_answers
    from webhook.cli.hub.client import HubRefusedError

    try:
        async with hub_answers(connection) as hub:
            return await hub.reservations()
    except HubRefusedError as error:
        raise UserError(error.message) from error


def reservation_rows(items: Sequence[JsonObject], zone: ZoneInfo) -> Iterator[tuple[str, ...]]:
    """Yield one row per reservation, with its end in *zone*."""
    for item in items:
        until = parse_time(item["expires"]).astimezone(zone)
        expiry = f"{until:%a %Y-%m-%d %H:%M:%S %Z}"
        yield item["gate"], item["of"], item["for"] or "-", _granted(item), item["holder"], expiry, item.get("id", "-")


async def _release(connection: HubConnection, identity: str) -> None:
    from webhook.cli.hub.answers import hub_answers
    from webhook.cli.hub.client import HubRefusedError

    try:
        async with hub_answers(connection) as hub:
            await hub.release(identity)
    except HubRefusedError as error:
        raise UserError(error.message) from error


def _show(answer: Mapping[str, Any], output: str, zone: ZoneInfo) -> int:
    """Print an answer, and return the exit code."""
    if output in ("text", "wide"):
        url = url_of(answer["verdict"], "Node") if "verdict" in answer else url_of(answer.get("reason", ""), "Gate")
        verdict, _, reasons = printable(paragraph(answer, zone)).partition(":")
        click.echo(f"{hyperlink(verdict, url)}:{linked(reasons)}{f' See {url}' if output == 'wide' and url else ''}")
    else:
        print_document(answer, output)
    return 0 if answer["allowed"] else REFUSED


def paragraph(answer: Mapping[str, Any], zone: ZoneInfo) -> str:
    """Return an answer as one paragraph of text, with times in *zone* and in UTC."""
    message = answer["message"]
    if answer.get("nextOpen") and not answer["allowed"]:  # stated below, in the reader's time zone
        message = message.removesuffix(f"; opens {answer['nextOpen']}")
    sentences = [f"{'Allowed' if answer['allowed'] else 'Not now'}: {message}."]
    grant = answer.get("granted")
    if isinstance(grant, list) and grant and "reservation" not in answer:
        sentences.append(f"Granted: {', '.join(grant)}.")
    if answer.get("nextOpen") and not answer["allowed"]:
        sentences.append(f"The gate opens {_local_time(answer['nextOpen'], zone)}.")
    if "reservation" in answer:
        reservation = answer["reservation"]
        sentences.append(f"Reserved until {_local_time(reservation['expires'], zone)} as {reservation['id']}.")
    return " ".join(sentences)


def _local_time(text: str, zone: ZoneInfo) -> str:
    instant = parse_time(text)
    local_time = in_zone(instant, zone)
    if local_time.utcoffset() == instant.utcoffset():
        return f"{instant:%a %Y-%m-%d %H:%M:%S} UTC"
    return f"{local_time:%a %Y-%m-%d %H:%M:%S %Z} ({format_time(instant)})"
