"""Objects in protobuf, from bytes as a client sends them."""

import pytest

from webhook.embedded.api_server.protobuf import CONTENT_TYPE, UnsupportedMessageError, decode_object


def varint(number):
    number &= 2**64 - 1
    chunks = []
    while True:
        number, low = number >> 7, number & 0x7F
        chunks.append(low | (0x80 if number else 0))
        if not number:
            return bytes(chunks)


def field(number, value):
    """Return one field: a number, or a text or the fields of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version, kind, *fields):
    """Return an object as a request has it."""
    type_meta = field(1, field(1, api_version) + field(2, kind))
    return b"k8s\x00" + type_meta + field(2, b"".join(fields)) + field(3, "") + field(4, "")


def named(name, *fields):
    """Return the metadata of an object, with the empty fields that Go always writes."""
    empty = field(2, "") + field(3, "") + field(7, 0) + field(8, b"")
    return field(1, field(1, name) + empty + b"".join(fields))


def test_a_namespace():
    sent = body(
        "v1", "Namespace", named("shop", field(11, field(1, "a") + field(2, "b"))), field(2, b""), field(3, b"")
    )
    assert decode_object(sent) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"a": "b"}},
        "spec": {},
        "status": {},
    }


@pytest.mark.parametrize(
    ("sent", "member", "value"),
    [
        pytest.param(
            body("v1", "Secret", field(2, field(1, "k") + field(2, b"\xff"))), "data", {"k": "/w=="}, id="bytes"
        ),
        pytest.param(body("v1", "ConfigMap", field(2, field(1, "k"))), "data", {"k": ""}, id="map-without-a-value"),
        pytest.param(body("v1", "ConfigMap", field(4, 0)), "immutable", False, id="pointer-to-false"),
        pytest.param(
            body("scheduling.k8s.io/v1", "PriorityClass", field(2, 0), field(3, 0)), "value", 0, id="zero-is-kept"
        ),
        pytest.param(body("scheduling.k8s.io/v1", "PriorityClass", field(2, -5)), "value", -5, id="negative-number"),
        pytest.param(
            body("apps/v1", "Deployment", field(2, field(1, 0) + field(5, 0) + field(7, 0))),
            "spec",
            {"replicas": 0},
            id="zero-that-is-omitted",
        ),
        pytest.param(
            body("policy/v1", "PodDisruptionBudget", field(2, field(1, field(1, 1) + field(2, 0) + field(3, "5%")))),
            "spec",
            {"minAvailable": "5%"},
            id="percentage",
        ),
        pytest.param(
            body("policy/v1", "PodDisruptionBudget", field(2, field(3, field(1, 0) + field(2, 0)))),
            "spec",
            {"maxUnavailable": 0},
            id="zero-of-a-number-or-text",
        ),
        pytest.param(
            body("v1", "ResourceQuota", field(2, field(1, field(1, "cpu") + field(2, field(1, "500m"))))),
            "spec",
            {"hard": {"cpu": "500m"}},
            id="quantity",
        ),
        pytest.param(
            body("v1", "Namespace", field(1, field(9, field(1, 1_700_000_000)))),
            "metadata",
            {"deletionTimestamp": "2023-11-14T22:13:20Z"},
            id="time",
        ),
        pytest.param(
            body("networking.k8s.io/v1", "Ingress", field(2, field(3, field(1, "a.b") + field(2, field(1, b""))))),
            "spec",
            {"rules": [{"host": "a.b", "http": {}}]},
            id="inlined",
        ),
        pytest.param(body("apps/v1", "DeleteOptions", field(4, "Orphan")), "propagationPolicy", "Orphan", id="options"),
    ],
)
def test_values(sent, member, value):
    document = decode_object(sent)
    assert document[member] == value
    assert document.keys() <= {"apiVersion", "kind", member}


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        pytest.param(body("v1", "Pod"), "kind Pod of v1", id="kind"),
        pytest.param(body("apps/v1beta1", "Deployment"), "kind Deployment of apps/v1beta1", id="version"),
        pytest.param(body("v1", "Namespace", field(9, "x")), "field 9 of Namespace", id="field"),
        pytest.param(body("v1", "Namespace", field(1, field(17, b""))), "field 17 of ObjectMeta", id="deeper"),
    ],
)
def test_content_that_would_be_lost_is_refused(sent, message):
    with pytest.raises(UnsupportedMessageError, match=message):
        decode_object(sent)


WHOLE = body("v1", "Namespace", named("shop"))


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="json"),
        pytest.param(b"k8s\x00" + field(1, 5), id="number-for-a-message"),
        pytest.param(body("v1", "Namespace", field(1, field(1, 5))), id="number-for-a-text"),
        pytest.param(body("v1", "Namespace", field(1, field(1, b"\xff"))), id="not-utf-8"),
        pytest.param(body("v1", "ConfigMap", field(4, "x")), id="text-for-a-boolean"),
        pytest.param(body("v1", "Namespace", field(1, field(9, field(1, 2**62)))), id="time-out-of-range"),
        pytest.param(b"k8s\x00" + bytes([0x0D]) + b"abcd", id="wire-type"),
        pytest.param(b"k8s\x00" + b"\xff" * 11, id="endless-number"),
        *(pytest.param(WHOLE[:end], id=f"cut-at-{end}") for end in (3, 5, 12, len(WHOLE) - 5)),
    ],
)
def test_a_malformed_body_is_refused(sent):
    with pytest.raises(ValueError):
        decode_object(sent)


def test_the_content_type():
    assert CONTENT_TYPE == "application/vnd.kubernetes.protobuf"
