"""Who manages the fields of an object; the whole of it is checked against a real API server in e2e."""

import pytest

from webhook.kube.ports import ConflictError
from webhook.member.objects.field_managers import as_applied, has_no_other_managers, is_applied, is_field_conflict


def entry(manager="work-api-agent", operation="Update", subresource=None, version="v1", **fields):
    found = {"manager": manager, "operation": operation, "apiVersion": version, "fieldsV1": fields}
    return found | ({"subresource": subresource} if subresource else {})


def managed(*entries):
    return {"metadata": {"name": "x", "managedFields": list(entries)}}


@pytest.mark.parametrize(
    ("entries", "ours", "applied"),
    [
        pytest.param([], True, False, id="nobody"),
        pytest.param([entry()], True, False, id="written"),
        pytest.param([entry(operation="Apply"), entry("before-first-apply")], True, True, id="applied"),
        pytest.param([entry(), entry("kubectl")], False, False, id="somebody-else"),
        pytest.param([entry(), entry("kube-controller-manager", subresource="status")], True, False, id="status"),
        pytest.param([entry(), entry("hpa", subresource="scale")], False, False, id="scale"),
        pytest.param([entry("kubectl", "Apply")], False, False, id="applied-by-others"),
    ],
)
def test_whose_the_fields_are(entries, ours, applied):
    assert (has_no_other_managers(managed(*entries)), is_applied(managed(*entries))) == (ours, applied)


def test_what_was_written_becomes_applied():
    a, b, other = {"f:a": {}}, {"f:b": {"f:c": {}}}, entry("kubectl", **{"f:x": {}})
    status = entry(subresource="status", **{"f:status": {}})
    found = as_applied(managed(other, entry(**a), status))
    assert found == managed(entry(operation="Apply", **a), other, status)
    both = managed(other, entry(**a, **b), entry(operation="Apply", **{"f:b": {"f:d": {}}}), status)
    merged = entry(operation="Apply", **a, **{"f:b": {"f:c": {}, "f:d": {}}})
    assert as_applied(both) == managed(merged, other, status)
    assert as_applied(found) is None, "nothing is left to turn"


def test_fields_of_another_version_do_not_mix():
    found = as_applied(managed(entry(operation="Apply", **{"f:a": {}}), entry(version="v2", **{"f:b": {}})))
    assert found == managed(entry(operation="Apply", **{"f:a": {}}))


def test_conflicts_of_fields_are_told_from_those_of_versions():
    fields = ConflictError('Apply failed with 1 conflict: conflict with "x" using v1: .data.a')
    version = ConflictError('Operation cannot be fulfilled on configmaps "x": the object has been modified')
    assert (is_field_conflict(fields), is_field_conflict(version)) == (True, False)
