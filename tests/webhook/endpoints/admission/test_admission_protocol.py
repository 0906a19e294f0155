"""The raw HTTP cases of ``admission_protocol.jsonl`` against a running server, one test per line.

The format of a line: method, path, headers and body of a request; the status and class of the answer; checks on
the JSON body. What holds for every case is checked for every case (`check_invariants`).
"""

import asyncio
import base64
import copy
import gzip
import json
import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest

FOLDER = Path(os.environ.get("HARBORMASTER_VECTORS") or Path(__file__).parents[3] / "vectors")
FILE = FOLDER / "admission_protocol.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []

PATCH_OPERATIONS = {"add", "remove", "replace"}
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
async def test_case(port, case):
    http, want = case["http"], case["want"]
    repeat = http.get("repeat", {"count": 1, "parallel": 1})
    bodies = [
        body_of(http, f"{index:08d}-fresh" if repeat.get("fresh_uid") else None) for index in range(repeat["count"])
    ]
    answers = await ask_all(port, http, bodies, repeat["parallel"])
    for body, answer in zip(bodies, answers, strict=True):
        assert answer.status == want["http_status"], answer.body[:300]
        check_invariants(http, body, answer)
        check_class(want["class"], answer)
        for check in want["response_checks"]:
            await run_check(port, check, http, body, answer)
    await check_still_alive(port)


async def ask_all(port, http, bodies, parallel):
    """Send every body, over *parallel* connections, and return the answers in order."""
    answers = [None] * len(bodies)

    async def work(first: int) -> None:
        async with port.dial() as connection:
            for before in http.get("sequence_before", ()):
                await connection.send(raw(before, body_of(before)))
                answer = await connection.answer()
                if answer.headers.get("Connection") == "close":
                    break
            else:
                for index in range(first, len(bodies), parallel):
                    await connection.send(raw(http, bodies[index]))
                    answers[index] = await connection.answer(has_body=http["method"] != "HEAD")
                return
        async with port.dial() as connection:
            for index in range(first, len(bodies), parallel):
                await connection.send(raw(http, bodies[index]))
                answers[index] = await connection.answer(has_body=http["method"] != "HEAD")

    await asyncio.gather(*(work(first) for first in range(parallel)))
    return answers


def path_of(http) -> str:
    kind = {"validate": "/validate", "mutate": "/mutate"}[http["path_kind"]]
    return kind + quote(http.get("path_suffix", ""), safe="/%") + http.get("query", "")


def raw(http, body: bytes) -> bytes:
    """Return the bytes of the request."""
    lines = [f"{http['method']} {path_of(http)} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in http.get("headers", {}).items()]
    if http.get("transfer") == "chunked":
        size = 65536
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        framed = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks) + b"0\r\n\r\n"
        return ("\r\n".join([*lines, "Transfer-Encoding: chunked"]) + "\r\n\r\n").encode() + framed
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode() + body


def compact(value) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def body_of(http, uid: str | None = None) -> bytes:
    """Return the bytes of the body, however the line describes it."""
    if "body" in http:
        return http["body"].encode()
    if "body_base64" in http:
        return base64.b64decode(http["body_base64"])
    if "body_json" in http:
        document = http["body_json"]
        if uid is not None:
            document = copy.deepcopy(document)
            document["request"]["uid"] = uid
        return compact(document)
    if "body_gen" not in http:
        return b""
    described = http["body_gen"]
    name = next(name for name in GENERATORS if name in described or name in described.values())
    return GENERATORS[name](described.get(name, described))


def padded(given) -> bytes:
    """A review padded with an annotation to an exact size."""
    document = copy.deepcopy(given["review"])
    request = document["request"]
    places = [request["object"], request["oldObject"]] if given.get("pad") == "both" else [request["object"]]
    for place in places:
        place["metadata"].setdefault("annotations", {})["pad"] = ""
    missing = given["total_bytes"] - len(compact(document))
    for place in places:
        place["metadata"]["annotations"]["pad"] = "x" * (missing // len(places))
    assert len(compact(document)) == given["total_bytes"]
    return compact(document)


def nested(given) -> bytes:
    """A review with one very deep member."""
    document = copy.deepcopy(given["review"])
    *parents, last = given["at"].split(".")
    place = document
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = "@@"
    deep = '{"a":' * given["levels"] + "1" + "}" * given["levels"]
    return compact(document).replace(b'"@@"', deep.encode())


GENERATORS = {
    "repeat": lambda given: given["unit"].encode() * given["count"],
    "gzip_zeros": lambda given: gzip.compress(bytes(given["bytes"])),
    "review_padded": padded,
    "review_nested": nested,
}


def check_invariants(http, body: bytes, answer) -> None:
    assert answer.status != 500
    if answer.status == 200:
        check_review(http, body, answer)
    elif http["method"] == "POST":
        assert answer.headers["Content-Type"].startswith("application/json")
        status = answer.json
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
        assert status["code"] == answer.status
    if answer.status == 503:
        assert int(answer.headers["Retry-After"]) >= 0
    if answer.status == 405:
        assert "POST" in answer.headers["Allow"]


def check_review(http, body: bytes, answer) -> None:
    assert answer.headers["Content-Type"].startswith("application/json")
    review = answer.json
    response = review["response"]
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert response["uid"] == json.loads(body)["request"]["uid"]
    assert isinstance(response["allowed"], bool)
    assert ("patch" in response) == ("patchType" in response)
    if "patch" in response:
        assert http["path_kind"] == "mutate"
        operations = patch_of(answer)
        assert operations
        assert {operation["op"] for operation in operations} <= PATCH_OPERATIONS
        patched(body, answer)
    if not response["allowed"]:
        status = response["status"]
        assert status["code"] >= 400
        assert status["message"]
        if status["reason"] == "Invalid":
            assert status["details"]["causes"]
    warnings = response.get("warnings", [])
    assert len(warnings) <= 10
    assert all(isinstance(text, str) and len(text) <= 240 and not UNPRINTABLE.search(text) for text in warnings)
    for key, value in response.get("auditAnnotations", {}).items():
        assert re.fullmatch(r"[a-z0-9-]{1,40}", key)
        assert isinstance(value, str)


def check_class(wanted: str, answer) -> None:
    if wanted == "http_error":
        assert answer.status >= 400
    else:
        allowed = answer.json["response"]["allowed"]
        assert wanted == "any200" or allowed is (wanted == "allow"), answer.json["response"].get("status")


def patch_of(answer) -> list:
    response = answer.json["response"]
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else []


def patched(body: bytes, answer):
    """Return the object with the patch applied."""
    document = json.loads(body)["request"]["object"]
    for operation in patch_of(answer):
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place = document
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place[parent]
        if isinstance(place, list):
            if operation["op"] == "add":
                place.insert(len(place) if last == "-" else int(last), operation["value"])
            elif operation["op"] == "remove":
                del place[int(last)]
            else:
                place[int(last)] = operation["value"]
        elif operation["op"] == "remove":
            del place[last]
        else:
            assert operation["op"] == "add" or last in place
            place[last] = operation["value"]
    return document


async def run_check(port, check, http, body: bytes, answer) -> None:
    path = check["path"]
    if path == "$nocrash":
        return
    if path == "$idempotent":
        document = json.loads(body)
        document["request"]["object"] = patched(body, answer)
        (again,) = await ask_all(port, http, [compact(document)], 1)
        assert "patch" not in again.json["response"]
        return
    if path == "$raw":
        values = [answer.body]
    elif path == "$texts":
        values = texts(answer)
    elif path.startswith("$patched"):
        values = select(patched(body, answer), path.removeprefix("$patched").removeprefix("."))
    elif path.startswith("$patch"):
        values = select(patch_of(answer), path.removeprefix("$patch").removeprefix("."))
    else:
        values = select(answer.json, path)
    assert holds(check["op"], values, check.get("value")), (check, values)


def texts(answer) -> list[str]:
    response = answer.json.get("response", {})
    status = response.get("status", {})
    causes = status.get("details", {}).get("causes", [])
    found = [status.get("message", ""), *(cause["message"] for cause in causes)]
    return [*found, *response.get("warnings", ()), *response.get("auditAnnotations", {}).values()]


def select(value, path: str) -> list:
    """Return what *path* leads to: dots, ``[n]``, and ``[*]`` for every element."""
    found = [value]
    for part in re.findall(r"[^.\[\]]+|\[\*\]|\[\d+\]", path):
        if part == "[*]":
            found = [item for value in found if isinstance(value, list) for item in value]
        elif part.startswith("["):
            index = int(part[1:-1])
            found = [value[index] for value in found if isinstance(value, list) and index < len(value)]
        else:
            found = [value[part] for value in found if isinstance(value, dict) and part in value]
    return found


def holds(op: str, values: list, wanted) -> bool:
    one = values[0] if values else None
    match op:
        case "eq":
            return one == wanted and type(one) is type(wanted)
        case "in":
            return one in wanted
        case "absent":
            return one is None
        case "absent_or_code_lt_400":
            return one is None or one < 400 or (isinstance(one, dict) and one.get("code", 0) < 400)
        case "absent_or_ignored" | "true":
            return True
        case "contains":
            return one is not None and wanted in one
        case "len_ge":
            return one is not None and len(one) >= wanted
        case "len_le":
            return len(one or ()) <= wanted
        case "has_items":
            return isinstance(one, dict) and wanted.items() <= one.items()
        case "any_matches":
            return any(isinstance(value, str) and re.search(wanted, value) for value in values)
        case "all_in":
            return bool(values) and all(value in wanted for value in values)
        case "all_len_ge":
            return bool(values) and all(len(value) >= wanted for value in values)
        case "bytes_le":
            return len(one) <= wanted
        case "no_control":
            return not any(UNPRINTABLE.search(value) for value in values)
    raise AssertionError(f"the op {op!r} is unknown")


async def check_still_alive(port) -> None:
    sound = next(case for case in CASES if case["want"]["class"] == "allow" and "body_json" in case["http"])
    (answer,) = await ask_all(port, sound["http"], [body_of(sound["http"])], 1)
    assert answer.status == 200
