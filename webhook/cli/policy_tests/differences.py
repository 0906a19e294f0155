"""Differences between an answer and the expectations of a case, with the engine's reason."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from scorer.api.unstructured.json_object import JsonObject, dump_json
from scorer.api.values.quoting import printable, quote
from webhook.cli.offline.admission import OfflineVerdict
from webhook.cli.planning.output import describe_cluster
from webhook.cli.policy_tests.file_format import AdmissionCase, ErrorExpectation, PlacementCase, WarningExpectation


@dataclass(frozen=True, slots=True)
class Difference:
    """One deviation from the expectation.

    Args:
        what: The field of ``expect``. For a field with several parts, also the cluster or the path within the field.
        expected: Expected value, as text.
        actual: Actual value, as text.
        why: Reasons, line by line.
    """

    what: str
    expected: str
    actual: str
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmissionMessage:
    """An error or a warning of admission."""

    rules: tuple[str, ...]
    field: str
    message: str

    def __str__(self) -> str:
        rule = f"{' or '.join(self.rules)} " if self.rules else ""
        return printable(rule + (f"{self.field}: {self.message}" if self.field else self.message))


def compact(value: Any) -> str:
    """Return a value as JSON in one line."""
    return printable(dump_json(value).decode())


def format_value(value: Any) -> str:
    """Return a value as readable text."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else printable(str(value))


def compare_values(subject: str, expected: Any, actual: Any, details: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Compare two values. Values of different types differ."""
    if type(expected) is not type(actual) or expected != actual:
        yield Difference(subject, format_value(expected), format_value(actual), details)


def has_part(subject: str, part: str, actual: str) -> Iterator[Difference]:
    """Yield a difference unless *part* occurs in a text."""
    if part not in actual:
        yield Difference(subject, f"a text with {quote(part)}", printable(actual))


def compare_placement(case: PlacementCase, entry: JsonObject) -> Iterator[Difference]:
    """Yield the differences between the entry of a placement in a plan and what a case expects."""
    expect = case.expect
    picked = [pick["cluster"] for pick in entry["picked"]]
    if expect.picked is not None and (set(expect.picked) != set(picked) or len(expect.picked) != len(picked)):
        yield Difference(
            "picked", format_value(sorted(expect.picked)), format_value(sorted(picked)), _why(entry, expect.picked)
        )
    if expect.ranking is not None and expect.ranking != picked:
        yield Difference(
            "ranking", format_value(expect.ranking), format_value(picked), _why_ranked(entry, expect.ranking)
        )
    if expect.includes is not None and (missing := [name for name in expect.includes if name not in picked]):
        reason = tuple(describe_cluster(entry, name) for name in missing)
        yield Difference("includes", format_value(expect.includes), format_value(picked), reason)
    for exclusion in expect.not_picked or ():
        yield from _compare_not_picked(entry, exclusion.cluster, exclusion.plugin, exclusion.reason)
    if expect.count is not None:
        yield from compare_values("count", expect.count, len(picked), (entry["message"],))
    if expect.satisfied is not None:
        yield from compare_values("satisfied", expect.satisfied, entry["satisfied"], (entry["message"],))
    if expect.message is not None:
        yield from has_part("message", expect.message, entry["message"])


def _compare_not_picked(
    entry: JsonObject, cluster: str, plugin: str | None, reason: str | None
) -> Iterator[Difference]:
    cluster_entry = next(
        (cluster_entry for cluster_entry in entry["filtered"] if cluster_entry["cluster"] == cluster), None
    )
    description, subject = describe_cluster(entry, cluster), f"notPicked {cluster}"
    if any(pick["cluster"] == cluster for pick in entry["picked"]):
        yield Difference(subject, "not picked", "picked", (description,))
        return
    if plugin is not None and (cluster_entry is None or cluster_entry["plugin"] != plugin):
        actual = "filtered out by no plugin" if cluster_entry is None else f"filtered out by {cluster_entry['plugin']}"
        yield Difference(subject, f"filtered out by {plugin}", actual, (description,))
    if reason is not None and reason not in description:
        yield Difference(subject, f"a reason with {quote(reason)}", description)


def _why(entry: JsonObject, expected: Sequence[str]) -> tuple[str, ...]:
    """Return the reason for each cluster that is in only one of the lists."""
    picked = [pick["cluster"] for pick in entry["picked"]]
    missing = [name for name in expected if name not in picked]
    extra = [name for name in picked if name not in expected]
    return tuple(describe_cluster(entry, name) for name in dict.fromkeys((*missing, *extra)))


def _why_ranked(entry: JsonObject, expected: Sequence[str]) -> tuple[str, ...]:
    """Return the reason for each cluster whose rank differs."""
    picked = [pick["cluster"] for pick in entry["picked"]]
    pairs = zip_longest(expected, picked)
    names = [name for first, other in pairs if first != other for name in (first, other) if name is not None]
    return tuple(describe_cluster(entry, name) for name in dict.fromkeys(names))


def compare_admission(
    case: AdmissionCase,
    verdict: OfflineVerdict,
    errors: Sequence[AdmissionMessage],
    warnings: Sequence[AdmissionMessage],
) -> Iterator[Difference]:
    """Yield the differences between the verdict of admission and what a case expects."""
    expect = case.expect
    if expect.allowed is not None and expect.allowed is not verdict.allowed:
        words = {True: "allowed", False: "refused"}
        yield Difference("allowed", words[expect.allowed], words[verdict.allowed], tuple(map(str, errors)))
    if expect.errors is not None:
        yield from _complete("errors", expect.errors, errors, _is_error)
    if expect.warnings is not None:
        yield from _complete("warnings", expect.warnings, warnings, _is_warning)
    if expect.stored is not None:
        yield from _subset("stored", expect.stored, verdict.document)


def _is_error(expectation: Any, message: AdmissionMessage) -> bool:
    assert isinstance(expectation, ErrorExpectation)
    return (expectation.field is None or expectation.field == message.field) and _is_told(
        expectation.rule, expectation.message, message
    )


def _is_warning(expectation: Any, message: AdmissionMessage) -> bool:
    assert isinstance(expectation, WarningExpectation)
    return _is_told(expectation.rule, expectation.message, message)


def _is_told(rule: str | None, message: str | None, actual: AdmissionMessage) -> bool:
    text = f"{actual.field}: {actual.message}" if actual.field else actual.message
    return (rule is None or rule in actual.rules) and (message is None or message in text)


def _complete(
    subject: str,
    expected: Sequence[Any],
    actual: Sequence[AdmissionMessage],
    fits: Callable[[Any, AdmissionMessage], bool],
) -> Iterator[Difference]:
    """Compare a complete list: expectations and messages must match one to one."""
    partners = _pairs(
        [[at for at, message in enumerate(actual) if fits(expectation, message)] for expectation in expected]
    )
    for position, expectation in enumerate(expected):
        if position not in partners.values():
            yield Difference(
                subject, _wanted_words(expectation), "not reported", tuple(f"reported: {message}" for message in actual)
            )
    for at, message in enumerate(actual):
        if at not in partners:
            yield Difference(subject, "nothing else", str(message))


def _pairs(choices: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return a maximum matching of expectations to messages, by message.

    A vague expectation yields its message to another one that needs it, and takes another message.
    """
    partners: dict[int, int] = {}

    def serve(expectation: int, visited_messages: set[int]) -> bool:
        for choice in choices[expectation]:
            if choice not in visited_messages:
                visited_messages.add(choice)
                if choice not in partners or serve(partners[choice], visited_messages):
                    partners[choice] = expectation
                    return True
        return False

    for expectation in range(len(choices)):
        serve(expectation, set())
    return partners


def _wanted_words(expectation: Any) -> str:
    fields = expectation.model_dump(exclude_none=True, by_alias=True)
    return ", ".join(f"{name} {quote(value)}" for name, value in fields.items()) or "any"


def _subset(at: str, expected: Any, actual: Any) -> Iterator[Difference]:
    """Compare objects field by field, and lists item by item. Fields that are not in *expected* are ignored."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name, value in expected.items():
            if name in actual:
                yield from _subset(f"{at}.{name}", value, actual[name])
            elif value is not None:
                yield Difference(f"{at}.{name}", compact(value), "absent")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for position, (item, other) in enumerate(zip(expected, actual, strict=True)):
            yield from _subset(f"{at}[{position}]", item, other)
    elif type(expected) is not type(actual) or expected != actual:
        yield Difference(at, compact(expected), compact(actual))
