"""Instance types in a file that a program is started with."""

import json

import pytest

from webhook.gate.instance_types import check_instance_types, read_catalog
from webhook.kube.login.kubeconfig import ConfigurationError

ROW = {"name": "small", "cpu": "2", "memory": "8Gi", "zone": "z1", "capacityType": "spot", "price": 0.1}


def test_a_table_is_a_catalog():
    assert read_catalog([ROW]).price_of("small", "z1", "spot") == 0.1


async def test_a_program_does_not_start_with_a_file_that_it_cannot_use(tmp_path):
    await check_instance_types(None)
    path = tmp_path / "types.yaml"
    with pytest.raises(ConfigurationError, match=r"types\.yaml: no such file"):
        await check_instance_types(path)
    path.write_text(json.dumps([ROW | {"price": -1}, ROW]), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"types\.yaml: \[0\]\.price: \"-1\" is not a price.*; \[1\]: .*twice"):
        await check_instance_types(path)
