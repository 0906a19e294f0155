"""Whether a loop leads: who, since when, and when it has last said so."""

from datetime import datetime, timedelta
from typing import Final

from scorer.api.documents import spec_of, text_at
from scorer.api.meta import JsonObject, format_time
from scorer.membership.heartbeats import read_time
from webhook.doctor.finding import Finding, State, judged
from webhook.doctor.members import seconds, stored_at
from webhook.kube.leader import parted_into

CHECK: Final = "leader"
USUAL_SECONDS: Final = 15
SLACK: Final = timedelta(seconds=2)
"""Both times are whole seconds."""


def judge_leader(lease: JsonObject | None, name: str, now: datetime) -> Finding:
    """Judge the Lease by which the loop leads.

    When it was renewed is taken from the API server, since the clock of the leader may be wrong.

    Args:
        lease: With its ``managedFields``; None: there is none.
        name: Its namespace and name.
        now: By the hub's clock.
    """
    advice = "does `harbormaster reconcile` run? Its log says `lease out of reach` and why, if it cannot lead"
    if lease is None:
        return judged(CHECK, [f"Lease {name} is not there: no loop has led yet"], "", advice)
    spec = spec_of(lease)
    holder = text_at(spec, "holderIdentity")
    if not holder:
        return judged(CHECK, [f"Lease {name} is free: no loop leads"], "", advice)
    renewed = stored_at(lease, "") or read_time(spec.get("renewTime"))
    lasts = spec.get("leaseDurationSeconds")
    limit = timedelta(seconds=lasts if isinstance(lasts, int) else USUAL_SECONDS) + SLACK
    if renewed is None or now - renewed > limit:
        since = f"for {seconds(now - renewed)}" if renewed else "at any time"
        return judged(CHECK, [f"{holder} holds Lease {name}, and has not renewed it {since}"], "", advice)
    begun = read_time(spec.get("acquireTime"))
    leads = "leads" if parted_into(holder) is None else "are worked on"
    return Finding(CHECK, State.OK, f"{holder} {leads}{f' since {format_time(begun)}' if begun else ''}")
