"""Input that nobody sends on purpose, to a server that runs: every answer is one that was meant, and none harms it.

Source: docs/specifications/serving.md 1.8 and 9.
"""

import asyncio
import base64
import http.client
import json
import random
import ssl
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.controlplane.cluster import LOOPBACK, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import Service
from scorer.api.crd.definitions import structural_schema
from scorer.api.kinds import OUR_KINDS, Kind
from tests.thoroughness import SOAK
from webhook.admission.patch import apply_patch
from webhook.admission.registry import REGISTRY

MEBIBYTE = 1024 * 1024
VECTORS = Path(__file__).parents[2] / "tests" / "vectors"
JSON = {"Content-Type": "application/json"}

PLACEMENT: JsonObject = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "payments"},
    "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
        "policy": {"placementType": "PickN", "numberOfClusters": 2},
    },
}
NODE_POOL: JsonObject = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"},
            }
        },
        "disruption": {"budgets": [{"nodes": "10%", "schedule": "0 9 * * 1-5", "duration": "8h"}]},
    },
}
ENVELOPE: JsonObject = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ResourceEnvelope",
    "metadata": {"name": "config", "namespace": "shop"},
    "data": {
        "settings": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "shop"},
            "data": {"text": "small"},
        }
    },
}
KINDS = {entry.kind.group_kind: entry.kind for entry in REGISTRY.values()}
LAUGHS = "a: &a [lol, lol]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}, *{before}, *{before}, *{before}, *{before}, *{before}, *{before}]\n"
    for before, name in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)
"""YAML of 13 lines; whoever resolves its aliases has 10^11 words in memory."""


def make_review(
    document: JsonObject | None, *, uid: str = "u-1", operation: str = "CREATE", old: object = None, **request: object
) -> JsonObject:
    subject = document or (old if isinstance(old, dict) else {})
    group, _, version = str(subject.get("apiVersion", "")).rpartition("/")
    name = str(subject.get("kind", ""))
    kind = KINDS.get((group, name), Kind(group, (version,), name, f"{name.lower()}s", namespaced=False))
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": {"group": group, "version": version, "kind": name},
            "resource": {"group": group, "version": version, "resource": kind.plural},
            "operation": operation,
            "userInfo": {"username": "ann", "groups": ["writers"]},
            "object": document,
            "oldObject": old,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            **request,
        },
    }


def changed(document: JsonObject, path: str, value: object) -> JsonObject:
    """Return a copy with another value at a dotted path; numbers are list positions."""
    new = deepcopy(document)
    holder: Any = new
    *parts, last = path.split(".")
    for part in parts:
        holder = holder[int(part)] if part.isdigit() else holder.setdefault(part, {})
    holder[int(last) if last.isdigit() else last] = value
    return new


def removed(document: JsonObject, path: str) -> JsonObject:
    new = deepcopy(document)
    del new[path]
    return new


def raw(text: str, document: JsonObject = PLACEMENT) -> bytes:
    """A review with *text*, which ``json`` would not write, where the document has the word ``HERE``."""
    return json.dumps(make_review(document)).replace('"HERE"', text).encode()


def of_schedule(schedule: object) -> JsonObject:
    return make_review(changed(NODE_POOL, "spec.disruption.budgets.0.schedule", schedule))


def laughing(at: str) -> JsonObject:
    return make_review(changed(ENVELOPE, at, LAUGHS))


def update(document: JsonObject, old: object, **request: object) -> JsonObject:
    return make_review(document, operation="UPDATE", old=old, **request)


@dataclass(frozen=True)
class Refused:
    """An HTTP error; the message has *word*."""

    word: str
    code: int = 400

    def check(self, status: int, body: JsonObject) -> None:
        assert (status, body["kind"], body["code"]) == (self.code, "Status", self.code), body
        assert self.word in body["message"]


@dataclass(frozen=True)
class Denied:
    """A refusal in band, because of *field* unless the request itself makes no sense."""

    code: int = 422
    field: str = ""
    cause: str = ""
    bytes: int = 100_000
    """At most so long is the answer, whatever was sent."""

    def check(self, status: int, body: JsonObject) -> None:
        response = body["response"]
        assert (status, response["uid"], response["allowed"]) == (200, "u-1", False)
        assert len(json.dumps(response)) <= self.bytes
        assert response["status"]["code"] == self.code, response["status"]
        causes = response["status"].get("details", {}).get("causes", [])
        if self.field:
            assert self.field in {cause["field"] for cause in causes}
        if self.cause:
            assert self.cause in {cause["reason"] for cause in causes if cause["field"] == self.field}


@dataclass(frozen=True)
class Allowed:
    """Let through, with a warning that has *warning*."""

    warning: str = ""
    patched: bool | None = None

    def check(self, status: int, body: JsonObject) -> None:
        response = body["response"]
        assert (status, response["uid"], response["allowed"]) == (200, "u-1", True), response
        if self.warning:
            assert any(self.warning in text for text in response["warnings"])
        if self.patched is not None:
            assert ("patch" in response) is self.patched


BAD_REQUEST = Denied(400)
SCHEDULE = Denied(field="spec.disruption.budgets[0].schedule", cause="FieldValueInvalid")
SPEC = Denied(field="spec")
INVALID = changed(PLACEMENT, "spec.policy.numberOfClusters", -1)
SELECTOR = PLACEMENT["spec"]["resourceSelectors"][0]
BUDGET = NODE_POOL["spec"]["disruption"]["budgets"][0]
NAMED = changed(PLACEMENT, "spec.policy.numberOfClusters", "HERE")
MANY = 100_000
BIG = changed(PLACEMENT, "metadata.annotations", {"pad": "x" * (3 * MEBIBYTE)})

ROWS: dict[str, tuple[bytes | JsonObject, Refused | Denied | Allowed]] = {
    # bodies that are no review
    "open-brackets": (b"[" * MANY, Refused("nested deeper than 100 levels")),
    "nested-brackets": (b"[" * MANY + b"]" * MANY, Refused("nested deeper than 100 levels")),
    "open-objects": (b'{"a":' * MANY, Refused("nested deeper than 100 levels")),
    "nested-objects": (b'{"a":' * MANY + b"1" + b"}" * MANY, Refused("nested deeper than 100 levels")),
    "a-million-open-brackets": (b"[" * 1_000_000, Refused("300000 JSON values", 413)),
    "8-MiB-of-brackets": (b"[" * (8 * MEBIBYTE), Refused("300000 JSON values", 413)),
    "brackets-in-an-object": (raw("[" * MANY + "]" * MANY, NAMED), Refused("nested deeper than 100 levels")),
    "objects-in-an-object": (raw('{"a":' * MANY + "1" + "}" * MANY, NAMED), Refused("nested deeper than 100 levels")),
    "open-brackets-in-an-object": (raw("[" * MANY, NAMED), Refused("nested deeper than 100 levels")),
    "nested-as-deep-as-orjson-goes": (raw("[" * 1000 + "]" * 1000, NAMED), Refused("nested deeper than 100 levels")),
    "5000-digits-in-an-object": (raw("9" * 5000, NAMED), Refused("too long")),
    "minus-5000-digits": (raw("-" + "9" * 5000, NAMED), Refused("too long")),
    "8-million-digits": (raw("9" * 8_000_000, NAMED), Refused("too long")),
    "1e400-in-an-object": (raw("1e400", NAMED), Refused("too large")),
    "minus-1e400": (raw("-1e400", NAMED), Refused("too large")),
    "a-huge-exponent": (raw("1e" + "9" * 5000, NAMED), Refused("too large")),
    "nan-in-an-object": (raw("NaN", NAMED), Refused("NaN")),
    "full-width-number": (raw("\uff15", NAMED), Refused("not JSON")),
    "byte-order-mark-before-a-review": (b"\xef\xbb\xbf" + raw("1"), Refused("byte order mark")),
    "two-reviews": (raw("1") * 2, Refused("not JSON")),
    "raw-surrogate": (raw("1").replace(b"payments", b"\xed\xa0\x80"), Refused("UTF-8")),
    "overlong-utf-8": (raw("1").replace(b"payments", b"\xc0\xae"), Refused("UTF-8")),
    "raw-newline-in-a-text": (raw("1").replace(b"payments", b"pay\nments"), Refused("not JSON")),
    "v2": (raw("1").replace(b"admission.k8s.io/v1", b"admission.k8s.io/v2"), Refused("admission.k8s.io/v2")),
    "request-a-list": (
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[]}',
        Refused("request must be an object"),
    ),
    "uid-a-number": (raw("1").replace(b'"u-1"', b"1"), Refused("request.uid")),
    "uid-of-10-kB": (raw("1").replace(b"u-1", b"u" * 10_000), Refused("request.uid")),
    "uid-with-an-escape-sequence": (raw("1").replace(b"u-1", b"\\u001b[31m"), Refused("control characters")),
    "a-million-values": (raw("[" + "1," * 1_000_000 + "1]", NAMED), Refused("300000 JSON values", 413)),
    "lone-surrogates-by-the-megabyte": (raw('"' + "\\ud800" * 200_000 + '"', NAMED), Refused("lone surrogates")),
    # requests that make no sense
    "operation-in-lower-case": (make_review(PLACEMENT, operation="create"), BAD_REQUEST),
    "operation-unknown": (make_review(PLACEMENT, operation="PATCH"), BAD_REQUEST),
    "operation-a-list": (make_review(PLACEMENT, operation=["CREATE"]), BAD_REQUEST),
    "kind-missing": (make_review(PLACEMENT, kind=None), BAD_REQUEST),
    "resource-a-text": (make_review(PLACEMENT, resource="clusterresourceplacements"), BAD_REQUEST),
    "object-a-list": (make_review(PLACEMENT, object=[PLACEMENT]), BAD_REQUEST),
    "object-of-another-kind": (make_review(PLACEMENT, object=NODE_POOL), BAD_REQUEST),
    "object-of-another-version": (
        make_review(PLACEMENT, object={**PLACEMENT, "apiVersion": "placement.kubernetes-fleet.io/v1beta1"}),
        BAD_REQUEST,
    ),
    "old-object-a-text": (update(PLACEMENT, "x"), BAD_REQUEST),
    # what is none of our business
    "kind-unknown": (make_review({**PLACEMENT, "kind": "Ferry"}), Allowed("no rules for Ferry")),
    "version-unknown": (
        make_review({**PLACEMENT, "apiVersion": "placement.kubernetes-fleet.io/v9"}),
        Allowed("no rules for ClusterResourcePlacement"),
    ),
    "kind-with-an-escape-sequence": (make_review({**PLACEMENT, "kind": "\x1b[31mFerry"}), Allowed("no rules for")),
    "subresource-unknown": (update(INVALID, PLACEMENT, subResource="harbour"), Allowed()),
    "connect": (make_review(None, operation="CONNECT", kind={}, resource={}), Allowed()),
    "delete": (make_review(None, operation="DELETE", old=PLACEMENT), Allowed()),
    "delete-without-old-object": (make_review(None, operation="DELETE", old=None, kind={}, resource={}), Allowed()),
    "no-user": (make_review(PLACEMENT, userInfo=None, options=None), Allowed()),
    "user-a-list": (make_review(PLACEMENT, userInfo=["ann"], dryRun="maybe"), Allowed()),
    "a-response-in-the-request": ({**make_review(PLACEMENT), "response": {"allowed": False}}, Allowed()),
    # sizes
    "100,000-values-in-an-object": (
        make_review(changed(PLACEMENT, "spec.resourceSelectors", [SELECTOR] * 20_000)),
        Denied(field="spec", cause="FieldValueTooMany"),
    ),
    "duration-of-2.6-MB": (
        make_review(changed(NODE_POOL, "spec.disruption.consolidateAfter", "9" * 2_600_000 + "h")),
        Denied(field="spec.disruption.consolidateAfter", cause="FieldValueInvalid"),
    ),
    "duration-of-1,000,001-digits": (
        make_review(changed(NODE_POOL, "spec.disruption.budgets.0.duration", "1" + "0" * 1_000_000 + "h")),
        Denied(field="spec.disruption.budgets[0].duration", cause="FieldValueInvalid"),
    ),
    "name-of-7-MB": (
        make_review(changed(PLACEMENT, "metadata.name", "a" * 7_000_000)),
        Denied(field="metadata.name", cause="FieldValueInvalid", bytes=2000),
    ),
    "label-key-of-7-MB": (
        make_review(changed(PLACEMENT, "metadata.labels", {"a" * 7_000_000: "b"})),
        Denied(field="metadata.labels", cause="FieldValueInvalid", bytes=2000),
    ),
    "map-key-of-2-MB-in-a-selector": (
        make_review(
            changed(
                PLACEMENT,
                "spec.resourceSelectors.0",
                {**SELECTOR, "name": "", "labelSelector": {"matchLabels": {"a" * 2_000_000: 1}}},
            )
        ),
        Denied(bytes=3000),
    ),
    # shapes
    "spec-missing": (make_review(removed(PLACEMENT, "spec")), SPEC),
    "spec-null": (make_review({**PLACEMENT, "spec": None}), SPEC),
    "spec-a-list": (make_review({**PLACEMENT, "spec": []}), SPEC),
    "spec-a-text-on-node-pool": (make_review({**NODE_POOL, "spec": "x"}), SPEC),
    "metadata-a-list": (make_review({**PLACEMENT, "metadata": ["x"]}), Denied(field="metadata")),
    "51-budgets": (
        make_review(changed(NODE_POOL, "spec.disruption.budgets", [BUDGET] * 51)),
        Denied(field="spec.disruption.budgets", cause="FieldValueTooMany"),
    ),
    "40-000-budgets": (
        make_review(changed(NODE_POOL, "spec.disruption.budgets", [{}] * 40_000)),
        Denied(field="spec", cause="FieldValueTooMany"),
    ),
    "9-000-budgets": (
        make_review(changed(NODE_POOL, "spec.disruption.budgets", [{}] * 9_000)),
        Denied(field="spec.disruption.budgets", cause="FieldValueTooMany"),
    ),
    "101-selectors": (
        make_review(
            changed(PLACEMENT, "spec.resourceSelectors", [{**SELECTOR, "name": f"ns-{n}"} for n in range(101)])
        ),
        Denied(field="spec.resourceSelectors", cause="FieldValueTooMany"),
    ),
    "4300-digits": (raw("9" * 4300, NAMED), Denied(field="spec.policy.numberOfClusters")),
    "2-to-the-64": (raw(str(2**64), NAMED), Denied(field="spec.policy.numberOfClusters")),
    "5000-digits-in-a-quantity": (
        make_review(changed(NODE_POOL, "spec.limits", {"cpu": "9" * 5000})),
        Denied(field="spec.limits.cpu"),
    ),
    "1e400-in-a-quantity": (
        make_review(changed(NODE_POOL, "spec.limits", {"cpu": "1e400"})),
        Denied(field="spec.limits.cpu"),
    ),
    "5000-digits-in-a-percentage": (
        make_review(changed(NODE_POOL, "spec.disruption.budgets.0.nodes", "9" * 5000 + "%")),
        Denied(field="spec.disruption.budgets[0].nodes"),
    ),
    "full-width-digits-in-a-percentage": (
        make_review(changed(NODE_POOL, "spec.disruption.budgets.0.nodes", "\uff11\uff10%")),
        Denied(field="spec.disruption.budgets[0].nodes"),
    ),
    "5000-digits-in-a-duration": (
        make_review(changed(NODE_POOL, "spec.disruption.budgets.0.duration", "9" * 5000 + "h")),
        Denied(field="spec.disruption.budgets[0].duration"),
    ),
    # schedules
    "schedule-of-100-kB": (of_schedule("0 9 * * 1-5 " * 8400), SCHEDULE),
    "schedule-of-100-kB-of-letters": (of_schedule("a," * 50_000 + "1 * * * *"), SCHEDULE),
    "schedule-of-100-kB-of-commas": (of_schedule("," * MANY + " * * * *"), SCHEDULE),
    "schedule-of-100-kB-of-items": (of_schedule("1," * 50_000 + "1 * * * *"), SCHEDULE),
    "schedule-of-100-kB-of-digits": (of_schedule("9" * MANY + " * * * *"), SCHEDULE),
    "schedule-of-100-kB-of-blanks": (of_schedule(" " * MANY), SCHEDULE),
    "schedule-of-100-kB-of-newlines": (of_schedule("*\n" * 50_000), SCHEDULE),
    "schedule-of-120-blanks": (of_schedule(" " * 120), SCHEDULE),
    "schedule-of-120-wide-blanks": (of_schedule("\u3000" * 120), SCHEDULE),
    "schedule-every-hour": (of_schedule("@every 1h"), SCHEDULE),
    "schedule-of-6-fields": (of_schedule("0 0 9 * * 1-5"), SCHEDULE),
    "schedule-of-random-minutes": (of_schedule("R R * * *"), SCHEDULE),
    "schedule-in-full-width-digits": (of_schedule("\uff10 \uff19 * * *"), SCHEDULE),
    "schedule-in-arabic-digits": (of_schedule("\u0660 \u0669 * * *"), SCHEDULE),
    "schedule-with-a-newline-at-its-end": (of_schedule("0 9 * * 1-5\n"), SCHEDULE),
    "schedule-with-a-lone-surrogate": (of_schedule("0 9 * * \ud800"), SCHEDULE),
    "schedule-on-31-february": (of_schedule("0 0 31 2 *"), Allowed()),
    # texts
    "billion-laughs-as-an-entry": (laughing("data.settings"), Denied(field="data.settings")),
    "billion-laughs-in-an-entry": (laughing("data.settings.data.text"), Allowed()),
    "billion-laughs-for-metadata": (laughing("data.settings.metadata"), Denied(field="data.settings.metadata.name")),
    "billion-laughs-for-a-name": (laughing("data.settings.kind"), Allowed()),
    "billion-laughs-for-data": (laughing("data"), Denied(field="data")),
    "billion-laughs-as-the-body": (LAUGHS.encode(), Refused("not JSON")),
    "surrogate-in-an-annotation": (make_review(changed(PLACEMENT, "metadata.annotations", {"a": "\ud800"})), Allowed()),
    "surrogate-in-an-annotation-key": (
        make_review(changed(PLACEMENT, "metadata.annotations", {"a\udfff": "b"})),
        Denied(field="metadata.annotations"),
    ),
    "surrogate-in-a-label": (
        make_review(changed(PLACEMENT, "metadata.labels", {"a": "\ud800"})),
        Denied(field="metadata.labels.a"),
    ),
    "surrogate-in-a-name": (
        make_review(changed(PLACEMENT, "metadata.name", "a\ud800")),
        Denied(field="metadata.name"),
    ),
    "surrogate-in-an-envelope": (
        make_review(changed(ENVELOPE, "data.settings.data", {"\udc00": "\ud83d"})),
        Allowed(),
    ),
    "surrogates-in-the-request": (
        make_review(PLACEMENT, name="\ud800", userInfo={"username": "\ud800", "groups": ["\udfff"]}),
        Allowed(),
    ),
    "escape-sequence-in-a-label": (
        make_review(changed(PLACEMENT, "metadata.labels", {"a": "\x1b[2J\x07"})),
        Denied(field="metadata.labels.a"),
    ),
    "newline-in-a-name": (make_review(changed(PLACEMENT, "metadata.name", "a\nb")), Denied(field="metadata.name")),
    "nul-in-a-name": (make_review(changed(PLACEMENT, "metadata.name", "a\0b")), Denied(field="metadata.name")),
    "name-of-a-megabyte": (
        make_review(changed(PLACEMENT, "metadata.name", "a" * MEBIBYTE)),
        Denied(field="metadata.name"),
    ),
    # updates
    "6-MiB-update": (update(BIG, BIG), Allowed()),
    "being-deleted": (
        update(changed(INVALID, "metadata.deletionTimestamp", "2026-01-01T00:00:00Z"), INVALID),
        Allowed(),
    ),
    "label-change-on-an-invalid-object": (
        update(changed(INVALID, "metadata.labels", {"a": "b"}), INVALID),
        Allowed("spec.policy.numberOfClusters"),
    ),
    "repair-of-an-invalid-object": (update(PLACEMENT, INVALID), Allowed()),
    "old-object-of-another-shape": (
        update(PLACEMENT, {"spec": ["x"], "metadata": 7}),
        Denied(field="spec.policy.placementType"),
    ),
    "dry-run-of-an-invalid-object": (
        make_review(INVALID, dryRun=True),
        Denied(field="spec.policy.numberOfClusters"),
    ),
}
"""By name: what is sent to the validating hook, and the answer."""

MUTATED: dict[str, tuple[bytes | JsonObject, Refused | Denied | Allowed]] = {
    "spec-missing": (make_review(removed(PLACEMENT, "spec")), Allowed(patched=False)),
    "spec-null": (make_review({**PLACEMENT, "spec": None}), Allowed(patched=False)),
    "spec-a-list": (make_review({**PLACEMENT, "spec": [1]}), Allowed(patched=False)),
    "spec-a-text-on-node-pool": (make_review({**NODE_POOL, "spec": "x"}), Allowed(patched=False)),
    "unknown-kind": (make_review({**PLACEMENT, "kind": "Ferry"}), Allowed(patched=False)),
    "delete": (make_review(None, operation="DELETE", old=PLACEMENT), Allowed(patched=False)),
    "schedule-of-100-kB": (of_schedule("0 9 * * 1-5 " * 8400), Allowed()),
    "surrogate-in-an-annotation": (
        make_review(changed(PLACEMENT, "metadata.annotations", {"a": "\ud800"})),
        Allowed(patched=True),
    ),
    "6-MiB-update": (update(BIG, BIG), Allowed()),
    "nested-brackets": (b"[" * MANY + b"]" * MANY, Refused("nested deeper than 100 levels")),
}
"""The same for the mutating hook."""


class Caller:
    """A client on one connection, by the way of the API server: strangers may not send that much.

    Args:
        service: Whom it calls.
    """

    def __init__(self, service: Service) -> None:
        trust = ssl.create_default_context(cafile=str(service.ca_file))
        self._path = service.hook
        self._connection = http.client.HTTPSConnection(LOOPBACK, service.port, timeout=PATIENCE, context=trust)

    def ask(self, hook: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        self._connection.request("POST", self._path(f"/{hook}?timeout=10s"), body, JSON)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def caller(service: Service) -> Iterator[Caller]:
    found = Caller(service)
    yield found
    found.close()


def encoded(given: bytes | JsonObject) -> bytes:
    return given if isinstance(given, bytes) else json.dumps(given).encode()


def check_texts(body: bytes) -> JsonObject:
    """The answer is plain JSON in UTF-8, and nothing in it can steer a terminal."""
    answer: JsonObject = json.loads(body.decode("utf-8"))
    pending: list[Any] = [answer.get("response", answer)]
    if "response" in answer:
        pending = [answer["response"].get(key) for key in ("status", "warnings", "auditAnnotations")]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str):
            assert not any(c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" for c in value), value
    return answer


@pytest.mark.parametrize(
    ("hook", "given", "wanted"),
    [
        *(pytest.param("validate", *row, id=name) for name, row in ROWS.items()),
        *(pytest.param("mutate", *row, id=f"mutate-{name}") for name, row in MUTATED.items()),
    ],
)
def test_bad_input_gets_the_answer_that_was_meant(service, caller, hook, given, wanted):
    """A sound review is still allowed afterwards, and the replica is ready."""
    status, body = caller.ask(hook, encoded(given))
    wanted.check(status, check_texts(body))
    status, body = caller.ask("validate", encoded(make_review(PLACEMENT)))
    Allowed().check(status, json.loads(body))
    assert service.ready()


REVIEWS = 40_000 if SOAK else 4_000
CONNECTIONS = 16
SEED = 20260301
TEXTS = (
    "",
    " " * 120,
    "x" * 5000,
    "9" * 5000,
    "0 9 * * 1-5",
    "@every 1h",
    "25%",
    "\uff11\uff12",
    "\ud800",
    "a\udfffb",
    "\0",
    "\x1b[2J",
    "a\nb",
    "\u202egnp",
    "\N{ZERO WIDTH JOINER}" * 20,
    "e" + "\N{COMBINING ACUTE ACCENT}" * 300,
    "\U0010ffff",
    "\ufeff",
    "a/b/c",
    "~1~0",
    "../../etc",
    "-1",
    "1e400",
    "NaN",
    "16Gi",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "0001-01-01T00:00:00+23:59",
    "In",
    "Exists",
    "PickN",
    "kube-system",
    LAUGHS,
)
NUMBERS = (
    0,
    1,
    -1,
    100,
    101,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63,
    2**64,
    -(2**64),
    10**300,
    10**400,
    1.5,
    1e308,
    -0.0,
)
SUBRESOURCES = ("", "status", "scale", "harbour", None, 7, ["status"], {}, "\ud800")


def sample(schema: JsonObject, pick: random.Random) -> Any:
    """Return a value with every member that a schema knows."""
    if words := schema.get("enum"):
        return pick.choice(words)
    if "default" in schema and pick.random() < 0.5:
        return schema["default"]
    match schema.get("type"):
        case "object":
            members = {name: sample(below, pick) for name, below in schema.get("properties", {}).items()}
            further = schema.get("additionalProperties")
            return members | ({"a": sample(further, pick)} if isinstance(further, dict) else {})
        case "array":
            return [sample(schema["items"], pick) for _ in range(pick.randint(1, 2))]
        case "integer":
            return int(schema.get("minimum", 1))
        case "number":
            return 1.5
        case "boolean":
            return pick.random() < 0.5
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "a"
        case _:
            return pick.choice(["25%", 3, "a"])


def objects_within(value: Any) -> Iterator[JsonObject]:
    """Yield all Kubernetes objects in a line of a file of vectors."""
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str) and "apiVersion" in value and isinstance(value.get("metadata"), dict):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from objects_within(item)


def known_objects(pick: random.Random, most: int = 60) -> dict[tuple[str, str], list[JsonObject]]:
    """Return objects of every kind with rules: of the vectors, and with all members that the schema has."""
    found: dict[tuple[str, str], list[JsonObject]] = {kind: [] for kind in KINDS}
    for file in sorted(VECTORS.glob("*.jsonl")):
        for text in file.read_text(encoding="utf-8").splitlines():
            for document in objects_within(json.loads(text)):
                same = found.get((document["apiVersion"].rpartition("/")[0], document["kind"]), [])
                if len(same) < most:
                    same.append(document)
    for kind in KINDS.values():
        if kind in OUR_KINDS:
            made = [sample(structural_schema(kind), pick) for _ in range(3)]
        else:
            made = [{"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}]
        for body in made:
            metadata = {"name": "a", **({"namespace": "shop"} if kind.namespaced else {})}
            found[kind.group_kind].append(
                {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
            )
    return found


def odd_value(pick: random.Random) -> Any:
    deep = pick.choice((3, 50, 90, 99, 150))
    return pick.choice(
        (
            lambda: pick.choice(TEXTS),
            lambda: pick.choice(NUMBERS),
            lambda: pick.choice((None, True, False, [], {}, [None], [[]], {"": {}}, {"\ud800": "\udfff"})),
            lambda: nested(deep, lambda inner: [inner]),
            lambda: nested(deep, lambda inner: {"a": inner}),
            lambda: [pick.choice(TEXTS) for _ in range(pick.choice((2, 300)))],
            lambda: {text[:50]: text for text in pick.sample(TEXTS, 5)},
        )
    )()


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every member and item below *value* as its holder and its key."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        holder = pending.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            pending.append(holder[key])
    return found


def damage(document: JsonObject, pick: random.Random) -> None:
    """Change one place of *document*."""
    known = places(document)
    if not known:
        return
    holder, key = pick.choice(known)
    value = holder[key]
    match pick.randrange(8):
        case 0 | 1 | 2:
            holder[key] = odd_value(pick)
        case 3:
            del holder[key]
        case 4:  # twice, or often
            if isinstance(holder, list):
                often = 60 if len(json.dumps(value)) < 1000 else 1
                holder.extend(deepcopy(value) for _ in range(often))
            else:
                holder[f"{key}{pick.choice(TEXTS)[:20]}"] = deepcopy(value)
        case 5:  # of another type
            if isinstance(value, dict):
                holder[key] = list(value.values())
            elif isinstance(value, list):
                holder[key] = {str(index): item for index, item in enumerate(value)}
            else:
                holder[key] = [value] if isinstance(value, str) else str(value)
        case 6:  # a part of elsewhere
            other, there = pick.choice(known)
            holder[key] = deepcopy(other.get(there) if isinstance(other, dict) else value)
        case _:
            holder[key] = value * 50 if isinstance(value, str) and len(value) < 200 else odd_value(pick)


def mutants(count: int, seed: int) -> Iterator[tuple[str, JsonObject]]:
    """Yield hooks and damaged reviews, of all kinds in turn; the same for the same seed."""
    pick = random.Random(seed)
    known = known_objects(pick)
    kinds = sorted(known)
    for index in range(count):
        documents = known[kinds[index % len(kinds)]]
        document, old = deepcopy(pick.choice(documents)), deepcopy(pick.choice(documents))
        operation = pick.choice(("CREATE", "UPDATE", "UPDATE", "DELETE"))
        if operation == "UPDATE" and pick.random() < 0.5:
            old = deepcopy(document)
        review = make_review(
            document, uid=f"u-{index}", operation=operation, old=old if operation != "CREATE" else None
        )
        request = review["request"]
        for _ in range(pick.choice((1, 1, 2, 3, 5))):
            damage(document, pick)
        if pick.random() < 0.3:
            damage(old, pick)
        if operation == "DELETE" and pick.random() < 0.5:
            damage(old, pick)
            request["object"] = None
        if pick.random() < 0.2:
            request["operation"] = pick.choice(("CREATE", "UPDATE", "DELETE", "CONNECT", "create", None, 3, ["CREATE"]))
        if pick.random() < 0.2:
            request["subResource"] = pick.choice(SUBRESOURCES)
        if pick.random() < 0.3:
            request["dryRun"] = odd_value(pick)
        if pick.random() < 0.2:
            damage(request["userInfo"], pick)
        if pick.random() < 0.1:
            request[pick.choice(("userInfo", "kind", "resource", "options", "name", "namespace"))] = odd_value(pick)
        if pick.random() < 0.05:
            damage(request, pick)
        yield pick.choice(("validate", "validate", "mutate")), review


def check_answer(hook: str, review: JsonObject, status: int, body: bytes) -> None:
    """Either a Status, or an answer to this very review whose patch can be applied."""
    answer = check_texts(body)
    if status != 200:
        assert (status, answer["kind"], answer["code"]) == (400, "Status", 400)
        return
    assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    response = answer["response"]
    assert response["uid"] == review["request"]["uid"]
    if not response["allowed"]:
        assert response["status"]["code"] in {400, 403, 409, 422}
    assert ("patch" in response) is ("patchType" in response)
    if "patch" in response:
        assert hook == "mutate"
        apply_patch(review["request"]["object"], json.loads(base64.b64decode(response["patch"])))


async def send_all(service: Service, reviews: Iterator[tuple[str, JsonObject]]) -> None:
    """Send all reviews over a few connections and check the answers."""
    trust = ssl.create_default_context(cafile=str(service.ca_file))

    async def work(session: aiohttp.ClientSession) -> None:
        for hook, review in reviews:  # shared: whoever is free takes the next one
            body = encoded(review)
            url = service.url + service.hook(f"/{hook}?timeout=10s")
            async with session.post(url, data=body, headers=JSON) as answer:
                status, content = answer.status, await answer.read()
            try:
                check_answer(hook, review, status, content)
            except Exception as error:
                raise AssertionError(f"{hook} {body[:3000]!r} got {status} {content[:500]!r}") from error

    connector = aiohttp.TCPConnector(ssl=trust, limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(work(session))


@pytest.mark.soak
async def test_no_damaged_review_makes_the_server_fail(service):
    """Thousands of reviews of every kind, each damaged in a few places; the same ones in every run."""
    log_before = service.program.log.stat().st_size
    errors_before = errors(service)
    await send_all(service, mutants(REVIEWS, SEED))
    assert errors(service) == errors_before
    with service.program.log.open("rb") as log:
        log.seek(log_before)
        assert b"Traceback" not in log.read()
    await asyncio.to_thread(check_sound, service)


def check_sound(service: Service) -> None:
    caller = Caller(service)
    try:
        status, body = caller.ask("validate", encoded(make_review(PLACEMENT)))
    finally:
        caller.close()
    Allowed().check(status, json.loads(body))
    assert service.ready()


def errors(service: Service) -> float:
    """How many reviews have ended in an error of ours."""
    common = 'operation="other",resource="other",result="error",code="500"'
    return sum(
        service.metric(f'harbormaster_admission_requests_total{{hook="{hook}",{common}}}')
        for hook in ("validate", "mutate")
    )
