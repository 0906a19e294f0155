"""Fields that an apply leaves as they are; against a real API server in e2e."""

import pytest

from webhook.member.apply.retained_fields import with_retained


def config_map(*finalizers):
    metadata = {"name": "settings"}
    return {"metadata": {**metadata, "finalizers": list(finalizers)} if finalizers else metadata}


def owned(*finalizers):
    return {"f:metadata": {"f:finalizers": {".": {}, **{f'v:"{finalizer}"': {} for finalizer in finalizers}}}}


@pytest.mark.parametrize(
    ("live", "fields", "sent"),
    [
        pytest.param(config_map(), None, config_map(), id="none"),
        pytest.param(config_map("a/x", "b/y"), None, config_map("a/x", "b/y"), id="whole-object"),
        pytest.param(config_map("a/x", "b/y"), {}, config_map(), id="none-owned"),
        pytest.param(config_map("a/x", "b/y"), owned("a/x", "gone/z"), config_map("a/x"), id="owned"),
        pytest.param(config_map("b/y"), owned("a/x"), config_map(), id="owned-but-removed"),
        pytest.param(config_map("a/x"), {"f:data": {}}, config_map(), id="other-fields-owned"),
    ],
)
def test_finalizers_are_retained(live, fields, sent):
    assert with_retained(config_map(), live, fields) == sent
