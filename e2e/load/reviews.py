"""Admission reviews as API servers send them, of right and of wrong objects, and the answer that each must get.

The answer is worked out beforehand, by the same rules without a server. Live warnings are left out of the comparison:
they depend on what else is on the hub at the moment. Each review has a uid and a name of its own.
"""

import ssl
from collections.abc import Iterator
from copy import deepcopy
from itertools import count, cycle
from pathlib import Path
from random import Random
from typing import Literal

import orjson
import yaml

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.service import Service
from e2e.load.connection import request
from e2e.load.steady import Asked, Asking
from scorer.api.kinds import OUR_KINDS, Kind
from tests.bench.admission import stored, written
from webhook.admission.review import answer
from webhook.kube.transport.serialization import encode
from webhook.validation.framework.context import Context

Hook = Literal["mutate", "validate"]

CONNECTIONS = 32
EXAMPLES = Path(__file__).parents[2] / "examples"
PLACEMENTS, AUTHORS = 64, 30
UID = "00000000-0000-4000-8000-000000000000"
NAME = "load-00000000"
"""Both are replaced in the bytes of a review, and of its answer, by others of the same length."""


class Reviews:
    """An endless mix of reviews.

    Args:
        service: The replica that is asked.
    """

    def __init__(self, service: Service) -> None:
        self._port = service.port
        self._trust = ssl.create_default_context(cafile=str(service.ca_file))
        hooks = [hook for each in service.configurations() for hook in each["webhooks"]]
        patience = {hook["clientConfig"]["url"].removeprefix(service.url): hook["timeoutSeconds"] for hook in hooks}
        made = [
            _Review.of(path, patience[path], hook, document, old, author)
            for hook, document, old, author in _mix()
            if (path := service.hook(_path(hook, document))) in patience  # some kinds have no defaults
        ]
        Random(1).shuffle(made)
        assert {(each.hook, each.is_allowed) for each in made} == {
            ("mutate", True),
            ("validate", True),
            ("validate", False),
        }
        self._reviews = cycle(made)
        self._numbers = count(1)

    def asking(self) -> Asking:
        """Say who is asked, and what."""
        return Asking(self._port, self._trust, lambda _: self._next(), CONNECTIONS)

    def _next(self) -> Asked:
        return next(self._reviews).numbered(next(self._numbers))


class _Review:
    """A review, and the answer that it must get.

    Args:
        hook: Which hook is called.
        call: The whole request.
        wanted: The answer.
        seconds: How long the API server waits for it.
    """

    def __init__(self, hook: Hook, call: bytes, wanted: JsonObject, seconds: int) -> None:
        self.hook = hook
        self.is_allowed = bool(wanted["response"]["allowed"])
        self._call = call
        self._seconds = seconds
        self._wanted = encode(_without_warnings(wanted))

    @classmethod
    def of(
        cls,
        path: str,
        seconds: int,
        hook: Hook,
        document: JsonObject,
        old: JsonObject | None,
        author: int,
    ) -> "_Review":
        """Make the review of a write.

        Args:
            path: Where the hook is.
            seconds: How long the API server waits for its answer.
            hook: Which hook is called.
            document: What is written.
            old: What is there; None: nothing, and the write creates it.
            author: Which one of many writes it.
        """
        group, _, version = document["apiVersion"].rpartition("/")
        kind = _kind_of(document)
        name_of_kind = {"group": group, "version": version, "kind": kind.kind}
        resource = {"group": group, "version": version, "resource": kind.plural}
        metadata = document["metadata"]
        review = {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": UID,
                "kind": name_of_kind,
                "resource": resource,
                "requestKind": name_of_kind,
                "requestResource": resource,
                "name": metadata["name"],
                **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
                "operation": "CREATE" if old is None else "UPDATE",
                "userInfo": {
                    "username": f"system:serviceaccount:platform-{author % AUTHORS:02}:deployer",
                    "groups": ["system:authenticated"],
                },
                "object": document,
                "oldObject": old,
                "dryRun": False,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        }
        return cls(hook, request(f"{path}?timeout={seconds}s", review), answer(review, hook, Context()), seconds)

    def numbered(self, number: int) -> Asked:
        """Return it under a uid and a name of its own."""
        ours = ((UID.encode(), f"{number:08x}{UID[8:]}".encode()), (NAME.encode(), f"load-{number:08}".encode()))
        call, wanted = self._call, self._wanted
        for old, new in ours:
            call, wanted = call.replace(old, new), wanted.replace(old, new)

        def problem(status: int, body: bytes) -> str:
            if status != 200:
                return f"{self.hook} is answered {status}: {body.decode()[:500]}"
            if encode(_without_warnings(orjson.loads(body))) != wanted:
                return f"{self.hook} is answered {body.decode()[:1000]}, not {wanted.decode()[:1000]}"
            return ""

        return Asked(call, problem, self._seconds)


def _without_warnings(verdict: JsonObject) -> JsonObject:
    verdict["response"].pop("warnings", None)
    return verdict


def _mix() -> Iterator[tuple[Hook, JsonObject, JsonObject | None, int]]:
    """Yield writes: the hook, the object, the one before, and the number of the author."""
    for number in range(PLACEMENTS):
        right = _named(stored(number))
        yield "mutate", _named(written(number)), None, number
        yield "validate", right, None, number
        changed = deepcopy(right)
        changed["spec"]["policy"]["numberOfClusters"] += 1
        changed["metadata"]["generation"] = 2
        yield "validate", changed, right, number
        wrong = deepcopy(right)
        if number % 2:
            wrong["spec"]["resourceSelectors"][0]["name"] = "kube-system"
            yield "validate", wrong, None, number
        else:
            wrong["spec"]["policy"]["tolerations"] = []  # those that a placement has had stay
            yield "validate", wrong, right, number
    files = [*EXAMPLES.glob("fleet/*.yaml"), *EXAMPLES.glob("refused/*.yaml")]
    documents = [each for path in sorted(files) for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    for number, document in enumerate(each for each in documents if each["kind"] in {kind.kind for kind in OUR_KINDS}):
        for hook in ("mutate", "validate"):
            yield hook, _named(document), None, number


def _named(document: JsonObject) -> JsonObject:
    """Return it under the name that is replaced, in the API version in which it is written."""
    return {**document, "metadata": {**document["metadata"], "name": NAME}}


def _path(hook: Hook, document: JsonObject) -> str:
    kind = _kind_of(document)
    return f"/{hook}/{kind.group}/{kind.plural}"


def _kind_of(document: JsonObject) -> Kind:
    group = document["apiVersion"].rpartition("/")[0]
    return next(kind for kind in OUR_KINDS if (kind.group, kind.kind) == (group, document["kind"]))
