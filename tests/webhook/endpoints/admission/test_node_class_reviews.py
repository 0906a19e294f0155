"""Reviews of node classes over the wire: no content causes an error or a refusal, and strangers learn nothing."""

import json

import pytest

from tests.builders.worker import make_pool_of, make_worker
from webhook.validation.framework.context import Context

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "s" * 40
PATH = "validate/karpenter.azure.com/aksnodeclasses"
KIND = {"group": "karpenter.azure.com", "version": "v1beta1", "kind": "AKSNodeClass"}


def class_review(review, old, new):
    request = {"kind": KIND, "operation": "UPDATE", "name": "default", "oldObject": node_class(old)}
    return json.dumps(review(**request, object=node_class(new))).encode()


def node_class(spec):
    version = f"{KIND['group']}/{KIND['version']}"
    return {"apiVersion": version, "kind": KIND["kind"], "metadata": {"name": "default"}, "spec": spec}


def hub():
    return Context.of_objects([make_pool_of("general"), make_worker("node-0")[1]])


def nested(levels):
    return [nested(levels - 1)] if levels else 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("text", [1], id="not-an-object"),
        pytest.param({"kubelet": nested(80)}, {"kubelet": nested(79)}, id="nested"),
        pytest.param({"kubelet": [1, 1.0, True, None, {}, []]}, {"kubelet": [[], {}, "1", 2**63]}, id="mixed-types"),
        pytest.param({}, {"\ud800": 1, "a\n\x1b[31m": 2, "": 3, "k" * 100_000: 4}, id="odd-names"),
        pytest.param({"gpu": 5, "vnetSubnetID": {}}, {"gpu": [], "vnetSubnetID": [[]]}, id="wrong-types"),
    ],
)
async def test_no_update_of_a_class_is_refused_or_fails(launch, review, old, new):
    async with launch(context=hub) as port, port.dial() as connection:
        answer = await connection.post(f"/{PATH}", class_review(review, old, new))
    assert (answer.status, answer.json["response"]["allowed"]) == (200, True)


async def test_a_stranger_learns_no_name_of_a_node(launch, review, tmp_path):
    secret_file = tmp_path / "secret"
    secret_file.write_text(SECRET, encoding="ascii")
    body = class_review(review, {"maxPods": 1}, {"maxPods": 2})
    async with launch(context=hub, webhook_secret_file=secret_file) as port, port.dial() as connection:
        known = await connection.post(f"/hooks/{SECRET}/{PATH}", body)
        stranger = await connection.post(f"/{PATH}", body)
    assert b"node-0" in known.body
    assert stranger.json["response"] == {"uid": "7b1d0d5e", "allowed": True}
