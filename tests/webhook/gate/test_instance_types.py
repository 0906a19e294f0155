"""Instance types from a file: read again when it changes, and the last that could be used while it cannot be."""

import json

import pytest

from webhook.gate.instance_types import (
    InstanceTypesFile,
    InstanceTypesFileError,
    check_instance_types,
    load_instance_types,
)

ROW = {"name": "small", "cpu": "2", "memory": "8Gi", "zone": "z1", "capacityType": "spot", "price": 0.1}
CSV = "name,cpu,memory,zone,capacityType,price\nsmall,2,8Gi,z1,spot,0.1\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("types.yaml", json.dumps([ROW]), id="list"),
        pytest.param("types.json", json.dumps({"instanceTypes": [ROW]}), id="object"),
        pytest.param("types.csv", CSV, id="csv"),
    ],
)
def test_every_form_is_read(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert load_instance_types(path).price_of("small", "z1", "spot") == 0.1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(json.dumps([ROW | {"price": -1}]), ["[0].price", "-1"], id="negative"),
        pytest.param(json.dumps([ROW, ROW]), ["[1]", "small"], id="twice"),
        pytest.param("{", ["neither YAML nor JSON"], id="no-yaml"),
        pytest.param("7", ["not a list of instance types"], id="no-list"),
        pytest.param("[2026-99-99]", ["month must be in"], id="no-date"),
    ],
)
def test_a_mistake_is_named_with_the_file(tmp_path, text, words):
    path = tmp_path / "types.yaml"
    path.write_text(text)
    with pytest.raises(InstanceTypesFileError) as raised:
        load_instance_types(path)
    assert all(word in str(raised.value) for word in ("types.yaml", *words)), raised.value


async def test_a_program_does_not_start_with_a_file_that_is_not_there(tmp_path):
    await check_instance_types(None)
    with pytest.raises(InstanceTypesFileError, match=r"types\.yaml: no such file"):
        await check_instance_types(tmp_path / "types.yaml")


async def test_a_file_is_read_again_when_it_changes_and_kept_while_it_is_wrong(tmp_path):
    path = tmp_path / "types.yaml"
    path.write_text(json.dumps([ROW]))
    file = InstanceTypesFile(path)
    first = await file.current()
    assert await file.current() is first
    path.write_text(json.dumps([ROW | {"price": -1, "name": "other"}]))
    assert await file.current() is first
    assert "[0].price" in file.problem
    path.write_text(json.dumps([ROW | {"name": "larger"}]))
    assert set((await file.current()).by_name) == {"larger"}
    assert file.problem == ""


async def test_without_a_file_there_are_none():
    assert await InstanceTypesFile(None).current() is None
