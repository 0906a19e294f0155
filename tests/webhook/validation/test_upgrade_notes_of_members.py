"""C-53: what a member says about its upgrades and cannot be read is told, and never keeps it from reporting."""

import pytest

from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

GROUP = "harbormaster.dev/upgrade-group"


def make_member(labels=None, **annotations):
    about = {f"harbormaster.dev/upgrade-{word}": text for word, text in annotations.items()}
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": "dover", "annotations": about, "labels": labels or {}},
        "spec": {"identity": {"kind": "User", "name": "dover"}},
    }


def warnings(new, old=None):
    judgement = judge("CREATE" if old is None else "UPDATE", new, old, Context())
    assert judgement.allowed
    return list(judgement.warnings)


@pytest.mark.parametrize(
    "annotations",
    [
        *({"order": text} for text in ("0", "-1000000", "1000000", "+5", "")),
        *({"duration": text} for text in ("90m", "1h30m", "45s")),
        {"observed": '{"controlPlaneVersion": "1.30.4", "pools": [{"name": "np1", "kubernetesVersion": "1.30.4"}]}'},
    ],
)
def test_what_can_be_read_is_not_mentioned(annotations):
    assert warnings(make_member(**annotations)) == []


@pytest.mark.parametrize(
    ("word", "text", "why"),
    [
        ("order", "first", "'first' is not an integer from -1000000 to 1000000"),
        ("order", "1000001", "'1000001' is not an integer from -1000000 to 1000000"),
        ("order", "1.5", "'1.5' is not an integer from -1000000 to 1000000"),
        ("duration", "90", "'90' is not a duration of hours, minutes and seconds such as 1h30m"),
        ("duration", "0s", "'0s' is zero"),
        ("observed", '{"pools": 5}', "pools: Input should be a valid array"),
    ],
)
def test_what_cannot_be_read_is_told(word, text, why):
    (warning,) = warnings(make_member(**{word: text}))
    assert warning == f"metadata.annotations[harbormaster.dev/upgrade-{word}]: invalid and ignored: {why}"


@pytest.mark.parametrize("group", ["Canary", "a.b", "a" * 51])
def test_a_group_that_no_strategy_can_name(group):
    (warning,) = warnings(make_member({GROUP: group}))
    assert warning.startswith(f'metadata.labels[{GROUP}]: "{group}" is not a valid group name')
    assert warnings(make_member({GROUP: "canary"})) == []


def test_what_an_update_leaves_alone_is_not_told_again():
    broken = make_member({GROUP: "Canary"}, order="first")
    assert warnings(broken, broken) == []
    assert len(warnings(broken, make_member())) == 2
