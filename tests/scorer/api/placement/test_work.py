import pytest

from scorer.api.unstructured.documents import manifests_of


@pytest.mark.parametrize(
    ("work", "held"),
    [
        pytest.param({}, [], id="no-spec"),
        pytest.param({"spec": None}, [], id="null"),
        pytest.param({"spec": {"workload": {}}}, [], id="no-manifests"),
        pytest.param({"spec": {"workload": {"manifests": []}}}, [], id="none"),
        pytest.param({"spec": {"workload": {"manifests": [{"kind": "Secret"}, 7]}}}, [{"kind": "Secret"}, 7], id="two"),
    ],
)
def test_what_a_work_holds(work, held):
    assert manifests_of(work) == held


@pytest.mark.parametrize("damage", [True, 0, "", "text", 1.5], ids=repr)
@pytest.mark.parametrize(
    ("member", "wrap"),
    [
        ("spec", lambda damage: damage),
        ("workload", lambda damage: {"workload": damage}),
        ("manifests", lambda damage: {"workload": {"manifests": damage}}),
    ],
    ids=["spec", "workload", "manifests"],
)
def test_damage_does_not_read_as_nothing(member, wrap, damage):
    """What a Work holds no longer goes from the member."""
    with pytest.raises(TypeError, match=f"Work web: {member} is"):
        manifests_of({"metadata": {"name": "web"}, "spec": wrap(damage)})
