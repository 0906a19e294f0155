"""How a stored object differs from what is wanted."""

import pytest

from webhook.doctor.differences import differences


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, [], id="defaults-may-be-added"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b is 1, not 2"], id="value"),
        pytest.param({}, {"a": "x"}, ["a is missing"], id="missing"),
        pytest.param({}, {"a": {}, "b": []}, [], id="missing-is-empty"),
        pytest.param({"a": {"b": 1}}, {"a": {}}, ['a is {"b":1}, not {}'], id="wanted-empty"),
        pytest.param({"a": ["y", "x"]}, {"a": ["x", "y"]}, [], id="order-of-words"),
        pytest.param({"a": ["x", "y"]}, {"a": ["x"]}, ['a is ["x","y"], not ["x"]'], id="one-more"),
        pytest.param({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, ["a[0].b is 1, not 2"], id="in-a-list"),
        pytest.param({"a": "Ignore"}, {"a": "Fail"}, ['a is "Ignore", not "Fail"'], id="text"),
        pytest.param({"a": 1}, {"a": {"b": 1}}, ['a is 1, not {"b":1}'], id="other-type"),
    ],
)
def test_differences(found, wanted, said):
    assert list(differences(found, wanted)) == said
