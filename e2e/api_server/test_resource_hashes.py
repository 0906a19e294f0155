"""Resource hashes beside those of a Go program: placements that KubeFleet has rolled out are not rolled out again."""

import json
import random
import string
import struct
import subprocess
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from scorer.rollout.snapshots.resources import resource_hash

VECTORS: Final = Path(__file__).parents[2] / "tests" / "vectors" / "resource_hash.jsonl"
SIGNS: Final = '<>&\u2028\u2029\u2027\x00\x08\x0b\x0c\x1f\x7f"\\/\n\té\ufffd\uffff\U0001f600'
DOCUMENTS: Final = 3000


@pytest.fixture(scope="module")
def hashes_of(programs):
    """Return the hashes that the program prints for JSON lists of objects."""

    def run(texts: list[str]) -> list[str]:
        given = "".join(f"{text}\n" for text in texts)
        command = [programs["snapshot-hash"]]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout.split()

    return run


def test_recorded_hashes_are_those_of_the_program(hashes_of):
    lines = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    assert hashes_of([line["objects"] for line in lines]) == [line["want"]["hash"] for line in lines]


def test_random_objects_have_the_hash_of_the_program(hashes_of):
    source = random.Random(7)
    texts = [orjson.dumps([_document(source) for _ in range(source.randint(0, 2))]).decode() for _ in range(DOCUMENTS)]
    for text, digest in zip(texts, hashes_of(texts), strict=True):
        assert resource_hash(orjson.loads(text)) == digest, text


def _document(source: random.Random) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Example", "spec": _value(source, 3)}


def _value(source: random.Random, depth: int) -> Any:
    match source.randrange(8 if depth else 6):
        case 0:
            return source.choice([None, True, False])
        case 1:
            return source.choice([source.randint(-(2**63), 2**64 - 1), source.randint(-999, 999)])
        case 2:
            return source.choice([source.uniform(-1, 1) * 10.0 ** source.randint(-12, 24), _any_float(source)])
        case 3 | 4 | 5:
            return _text(source)
        case 6:
            return [_value(source, depth - 1) for _ in range(source.randint(0, 4))]
        case _:
            return {_text(source): _value(source, depth - 1) for _ in range(source.randint(0, 4))}


def _any_float(source: random.Random) -> float:
    """Return a float of random bits; one that is not a number becomes null, as JSON has none."""
    (value,) = struct.unpack("d", source.randbytes(8))
    return float(value)


def _text(source: random.Random) -> str:
    return "".join(source.choices(SIGNS + string.ascii_letters, k=source.randint(0, 6)))
