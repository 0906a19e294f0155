"""Explanations of a placement and its last decisions: the answers of ``/v1/explain`` and ``…/runs`` as plain text.

Source: docs/specifications/scheduling.md 22.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from scorer.api.cluster.scores import parse_score
from scorer.api.names import SCORE_PREFIX
from scorer.api.unstructured.json_object import JsonObject

_OPERATORS: Final = {"Ge": "≥", "Gt": ">", "Le": "≤", "Lt": "<", "Eq": "=", "Ne": "≠"}
_PICKED: Final = ("Picked", "Kept")
_FILTERS: Final = {
    "affinity": "affinity",
    "eligibility": "eligibility",
    "namespace": "namespace",
    "taints": "taints",
    "topology": "spread",
}
_CHANGED: Final = re.compile(r"([^\s,()]+) (?:changed )?\(([^()]*)\)")
_INVOLVED: Final = re.compile(r"(\S+) changed \(([^()]*)\)")
_MEMBERS: Final = re.compile(r"since the last run these members changed: (.+?)(?: and ([0-9]+) more)?")


def heading(reference: str, answer: Mapping[str, Any]) -> list[str]:
    """Return the lines about the placement as a whole."""
    requested, count = answer.get("wanted"), answer.get("found")
    asks = "picks every cluster that passes" if requested is None else f"wants {_clusters(requested)}"
    lines = [f"{reference} {asks}, has {count}. Evaluated at {answer.get('evaluatedAt')}."]
    snapshot = answer.get("snapshot") or "none yet"
    fleet = _clusters(answer.get("fleetSize") or 0)
    lines.append(f"Policy snapshot: {snapshot}. Fleet: {fleet}{_rounds(answer)}.")
    if trigger := answer.get("trigger"):
        lines.append(f"Last decided because: {because(trigger['message'])}.")
    if counts := answer.get("counts"):
        lines.append(f"Not picked: {', '.join(f'{count} {category}' for category, count in counts.items())}.")
    return lines


def _rounds(answer: Mapping[str, Any]) -> str:
    """Return the number of rounds of picking, or that a complete placement evaluates no more clusters."""
    if rounds := answer.get("batches"):
        return f", picked in {rounds} round{'' if rounds == 1 else 's'}"
    if answer.get("wanted") == answer.get("found"):
        return ". It has all requested clusters, so none was evaluated again"
    return ""


def because(message: str) -> str:
    """Return the message of a trigger. Clusters with the same change share a clause."""
    notes, news = [], dict[str, list[str]]()
    rest = ""
    for part in message.split("; "):
        if match := _INVOLVED.fullmatch(part):
            news.setdefault(_happened(match[2]), []).append(match[1])
        elif members := _MEMBERS.fullmatch(part):
            for name, aspects in _CHANGED.findall(members[1]):
                news.setdefault(_happened(aspects), []).append(name)
            rest = members[2] or ""
        else:
            notes.append(part)
    clauses = [f"{_listed(names)} {event}" for event, names in news.items()]
    return "; ".join([*notes, *clauses]) + (f"; {rest} more changed" if rest else "")


def _happened(aspects: str) -> str:
    words = aspects.split(", ")
    if "gone" in words:
        return "left the fleet"
    return "joined the fleet" if "new" in words else f"changed ({aspects})"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def overview(items: Iterable[JsonObject]) -> tuple[list[str], list[list[str]]]:
    """Return headers and one row per cluster: its rank, its verdict and why."""
    items = list(items)
    spread = any("topology" in item for item in items)
    any_scored = any("affinity" in item for item in items)
    headers = [
        "RANK",
        "CLUSTER",
        "VERDICT",
        *(["SPREAD"] if spread else []),
        *(["AFFINITY"] if any_scored else []),
        "WHY",
    ]
    rows = []
    for item in items:
        is_judged = item["verdict"] in (*_PICKED, "ScoreTooLow", "NotNeeded")
        row = ["" if item.get("rank") is None else str(item["rank"]), item["cluster"], item["verdict"]]
        for part, is_visible in (("topology", spread), ("affinity", any_scored)):
            if is_visible:
                row.append(str(item[part]["score"]) if is_judged and part in item else "")
        rows.append([*row, _why(item)])
    return headers, rows


def _why(item: Mapping[str, Any]) -> str:
    words = str(item.get("reason") or "")
    return words.removeprefix(f"{item['verdict']}: ")


def ranges(items: Iterable[JsonObject]) -> list[str]:
    """Return a line for each sorter with the clusters that set its range, in the order of the preferences."""
    lines: dict[int, str] = {}
    for item in items:
        for term in item.get("affinity", {}).get("terms", ()):
            sorter = term.get("sorter") or {}
            if "min" in sorter and "max" in sorter:
                text = f"{sorter['name']} runs from {_end(sorter['min'])} to {_end(sorter['max'])}"
                lines.setdefault(term["index"], text + (f": {sorter['note']}" if sorter.get("note") else "") + ".")
    return [lines[index] for index in sorted(lines)]


def _end(end: Mapping[str, Any]) -> str:
    note = "" if end.get("eligible", True) else ", which cannot be picked itself"
    age = f", {end['age']} old" if end.get("age") else ""
    late = ", out of date" if end.get("stale") else ""
    return f"{end['value']} ({end['cluster']}{note}{age}{late})"


def limits(items: Iterable[JsonObject]) -> list[str]:
    """Return the clusters that exceed a soft limit of the spread with one more placement, and so rank last."""
    lines = []
    for item in items:
        for constraint in (item.get("topology") or {}).get("constraints") or ():
            if constraint.get("violated") and constraint["points"]:
                limit = f"maxSkew {constraint['maxSkew']} of {constraint['key']}"
                subject = f"one more in {constraint['domain']} would exceed {limit}"
                lines.append(f"{item['cluster']}: {subject}, which costs {-constraint['points']}")
    return lines


def advice(items: Iterable[JsonObject]) -> list[str]:
    """Return for every cluster the simple change that would make it pass, if there is one."""
    lines = []
    for item in items:
        words = str(item.get("help") or "")
        if words:
            lines.append(words if words.startswith(item["cluster"]) else f"{item['cluster']} {words}")
    return lines


def details(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield everything about one cluster: verdict, checks, points, binding, and changes that would help."""
    yield str(item["summary"])
    if item.get("rank") is not None:
        yield f"  rank {item['rank']}" + (f", round {item['batch']}" if "batch" in item else "")
    for warning in (*(item.get("warnings") or ()), *_unreadable_scores(item)):
        yield f"  warning: {warning}"
    filters = item.get("filters") or ()
    if filters:
        yield "  checks"
        width = max(len(_FILTERS.get(check["name"], check["name"])) for check in filters)
        for check in filters:
            yield from _check(check, width)
    yield from _points(item)
    if "gap" in item:
        gap = item["gap"]
        by = (
            "the later name in alphabetical order, because the scores are equal"
            if gap["decidedBy"] == "name"
            else f"{gap['decidedBy']} {gap['difference']:+}"
        )
        yield f"  gap to {gap['toLastPicked']}, the last one picked: {by}"
    if "binding" in item:
        yield f"  {_binding(item['binding'])}"
    if item.get("help"):
        yield f"  what would help: {item['help']}"


def _unreadable_scores(item: Mapping[str, Any]) -> list[str]:
    """Return why external scores in use cannot be read, unless a warning reports it."""
    terms = [term for check in item.get("filters") or () for term in check.get("terms") or ()]
    readings = [entry for term in terms for entry in term.get("properties") or ()]
    readings += [term["sorter"] for term in (item.get("affinity") or {}).get("terms") or () if term.get("sorter")]
    text = " ".join(item.get("warnings") or ())
    names = {entry["name"]: entry for entry in readings if entry.get("unreadable")}
    return [
        f"{name} cannot be read, so it does not count: {_mistake_of(entry['observed'])}"
        for name, entry in names.items()
        if name.startswith(SCORE_PREFIX) and name not in text
    ]


def _mistake_of(text: str) -> str:
    """Return the error in an external score."""
    try:
        parse_score(text)
    except ValueError as reason:
        return str(reason)
    return "it is not a number"


def _check(check: Mapping[str, Any], width: int) -> Iterator[str]:
    name = _FILTERS.get(check["name"], check["name"])
    notes = []
    if check.get("reason"):
        notes.append(str(check["reason"]))
    if check.get("heartbeatAge") and "heartbeat" not in str(check.get("reason")):
        notes.append(f"last heartbeat {check['heartbeatAge']} ago")
    notes += [f"{word} {check[word]}" for word in ("joined", "healthy") if check.get(word)]
    if check.get("namespace"):
        notes.append(f"namespace {check['namespace']}")
    for taint in check.get("tolerated") or ():
        by = taint["by"]
        notes.append(f"taint {taint['taint']} {'not tolerated' if by is None else f'tolerated by tolerations[{by}]'}")
    yield f"    {'passed' if check['pass'] else 'FAILED'}  {name.ljust(width)}  {', '.join(notes)}".rstrip()
    for term in check.get("terms") or ():
        verdict = "matches" if term["match"] else "does not match"
        yield f"{' ' * 14}term {term['index'] + 1} {verdict}: {_term(term)}"


def _term(term: Mapping[str, Any]) -> str:
    words = []
    for expression in (term.get("labels") or {}).get("expressions", ()):
        observed = "absent" if expression["observed"] is None else repr(expression["observed"])
        requirement = f"wanted {expression['op']} {', '.join(expression['want'])}".rstrip()
        words.append(f"label {expression['key']} is {observed}, {requirement}")
    words += (
        f"{entry['name']} {_reading(entry)}, wanted {_OPERATORS.get(entry['op'], entry['op'])} {entry['want']}"
        for entry in term.get("properties") or ()
    )
    return "; ".join(words) or "has no conditions"


def _reading(reading: Mapping[str, Any]) -> str:
    if reading.get("expired"):
        return f"was {reading['lastValue']}, which expired {reading['expiredFor']} ago (at {reading['validUntil']})"
    if reading.get("observed") is None:
        return "is not reported"
    if reading.get("unreadable") and str(reading["name"]).startswith(SCORE_PREFIX):
        return "cannot be read"  # the annotation is JSON, and the warning reports its mistake
    notes = ["unreadable"] if reading.get("unreadable") else []
    notes += [f"{reading['age']} old"] if reading.get("age") else []
    notes += ["out of date"] if reading.get("stale") else []
    notes += [f"valid for {reading['expiresIn']} (until {reading['validUntil']})"] if reading.get("expiresIn") else []
    return f"is {reading['observed']}" + (f" ({', '.join(notes)})" if notes else "")


def _points(item: Mapping[str, Any]) -> Iterator[str]:
    is_judged = item["verdict"] in (*_PICKED, "ScoreTooLow", "NotNeeded")
    idle = "" if is_judged else ", which does not count here: a check failed"
    constraints = (item.get("topology") or {}).get("constraints") or ()
    if constraints:
        yield f"  topology spread {item['topology']['score']}{idle}"
        for constraint in constraints:
            yield f"    {_signed(constraint['points'])}  {_constraint(constraint)}"
    terms = (item.get("affinity") or {}).get("terms") or ()
    if terms:
        yield f"  affinity score {item['affinity']['score']}{idle}"
        for term in terms:
            yield f"    {_signed(term['points'])}  {_preference(term)}"
    if item.get("tieBonus"):
        yield "  wins ties: it held the placement under the earlier policy"


def _signed(points: int) -> str:
    return f"{points:+5d}" if points else f"{0:5d}"


def _constraint(constraint: Mapping[str, Any]) -> str:
    if constraint.get("domain") is None:
        return f"{constraint['key']}: has no such label, so it is outside the spread"
    counts = ", ".join(f"{name} {count}" for name, count in constraint["counts"].items())
    effect = (
        f"the skew (largest less smallest) is {constraint['skew']}, one more in {constraint['domain']} changes it by "
    )
    effect += f"{constraint['change']:+d}"
    limit = f"within the limit of {constraint['maxSkew']}"
    if constraint.get("violated"):
        after = "it ranks after all clusters within the limit" if constraint["points"] else "it is filtered out"
        limit = f"the limit of {constraint['maxSkew']} is exceeded, so {after}"
    return f"{constraint['key']}: placed so far: {counts}; {effect}; {limit} ({constraint['whenUnsatisfiable']})"


def _preference(term: Mapping[str, Any]) -> str:
    name = f"preference {term['index'] + 1}, weight {term['weight']}"
    labels, sorter = term.get("labels"), term.get("sorter")
    gate = "" if labels is None else f"labels {'match' if labels['pass'] else 'do not match'}"
    if sorter is None:
        return f"{name}: {gate or 'for every cluster'}"
    ends = (
        f" in the range {_end(sorter['min'])} to {_end(sorter['max'])}" if "min" in sorter and "max" in sorter else ""
    )
    order = {"Ascending": "less is better", "Descending": "more is better"}.get(str(sorter.get("order")), "")
    words = [gate, f"{sorter['name']} {_reading(sorter)}{ends}", order]
    if "ratio" in sorter:
        verb = "is" if labels is None or labels["pass"] else "would be"
        words.append(f"{_plain(sorter['ratio'])} of {term['weight']} {verb} {_plain(sorter['raw'])}")
    if sorter.get("note"):
        words.append(str(sorter["note"]))
    return f"{name}: {'; '.join(word for word in words if word)}"


def _plain(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _binding(binding: Mapping[str, Any]) -> str:
    policy = "the current policy" if binding.get("currentPolicy") else "an earlier policy"
    under = f"{binding['snapshot']}, {policy}" if binding.get("snapshot") else policy
    words = [f"binding {binding['name']} is {binding['state']}, created under {under}"]
    if binding.get("since"):
        words.append(f"since {binding['since']}" + (f" ({binding['age']} ago)" if binding.get("age") else ""))
    if score := binding.get("recordedScore"):
        words.append(f"picked with score {score['affinity']} and spread {score['topologySpread']}")
    if binding.get("wouldBeRefused"):
        words.append(f"would be filtered out today: {binding['wouldBeRefused']}")
    elif binding.get("wouldStillMatch"):
        words.append("still passes every check")
    if binding.get("dropped"):
        words.append("is being dropped")
    return "; ".join(words)


def _clusters(count: int) -> str:
    return "1 cluster" if count == 1 else f"{count} clusters"


def history(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield every decision, the latest first: time, reason, changes, picked clusters."""
    items = answer["items"]
    count = "1 decision" if len(items) == 1 else f"{len(items)} decisions"
    yield f"{answer['placement']}: {count} on record{', the latest first' if len(items) > 1 else ''}."
    for item in items:
        yield ""
        yield from _run(item)


def _run(item: Mapping[str, Any]) -> Iterator[str]:
    requested = "every cluster that passes" if item["wanted"] is None else item["wanted"]
    again = f", seen {item['times']} times until {item['until']}" if "times" in item else ""
    fleet = "" if item["fleetSize"] is None else f", the fleet has {item['fleetSize']}"
    yield f"{item['time']}{again}: policy snapshot {item['snapshot']} wants {requested}, has {item['found']}{fleet}"
    yield f"  because  {because(item['trigger']['message'])}"
    for position, note in enumerate(item["difference"]):
        yield f"  {'changed' if not position else '       '}  {note}"
    if item["picked"]:
        yield f"  picked   {', '.join(map(_picked, item['picked']))}"
    if item["counts"]:
        counts = ", ".join(f"{count} {category}" for category, count in item["counts"].items())
        yield f"  others   {counts}"
    yield f"  message  {item['message']}"


def _picked(entry: Mapping[str, Any]) -> str:
    if "score" not in entry:
        return str(entry["cluster"])
    score = entry["score"]
    spread = f", spread {score['topologySpread']}" if score["topologySpread"] else ""
    return f"{entry['cluster']} (affinity {score['affinity']}{spread})"
