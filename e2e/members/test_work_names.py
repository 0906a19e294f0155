"""Placements of both families with Works of one name, from a real hub to a real member, with the printed roles."""

from e2e.fleet.joining import CONFIG_MAP, MEMBER, Pair
from e2e.fleet.objects import make_config_map, make_namespace, make_placement, make_resource_placement, selects
from e2e.fleet.waiting import wait_until
from scorer.api.family import placement_of_work
from scorer.api.kinds import APPLIED_WORK, NAMESPACE, PLACEMENT, RESOURCE_PLACEMENT, WORK
from scorer.api.unstructured.documents import name_of

SPACE = f"fleet-member-{MEMBER}"


def test_the_content_of_both_is_placed_and_goes_with_its_own_placement(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    pair.join()
    pair.start_agent()
    for home in ("kiosk", "depot"):
        pair.on_hub.create(make_namespace(home))
    pair.on_hub.create(make_config_map("prices", "depot", bread="3"))
    pair.on_hub.create({**make_config_map("rates", "kiosk", euro="1"), "metadata": labelled("rates", "kiosk")})
    only = {**selects(NAMESPACE, "kiosk"), "selectionScope": "NamespaceOnly"}
    pair.on_hub.create(make_placement("kiosk", resourceSelectors=[only]))
    wait_until("the namespace is placed", lambda: "" if pair.in_member.find(NAMESPACE, "kiosk") else "it is not there")
    pair.on_hub.create(make_resource_placement("rates", "kiosk"))
    wait_until("the first is placed", lambda: missing(pair, ("rates", "kiosk")))
    assert works(pair)["kiosk.rates-work"] == "rp/kiosk/rates"
    pair.on_hub.create(make_placement("kiosk.rates", home="depot"))
    wait_until("the second is placed", lambda: missing(pair, ("prices", "depot")))
    owners = {
        "kiosk-work": "crp/kiosk",
        "kiosk.rates-work": "rp/kiosk/rates",
        "kiosk.rates-work-crp": "crp/kiosk.rates",
    }
    assert works(pair) == owners
    assert {"kiosk.rates-work", "kiosk.rates-work-crp"} <= {name_of(each) for each in pair.in_member.all(APPLIED_WORK)}

    pair.on_hub.delete(RESOURCE_PLACEMENT, "rates", "kiosk")
    wait_until("the first goes", lambda: "" if missing(pair, ("rates", "kiosk")) else "it is still there")
    assert not missing(pair, ("prices", "depot"))
    assert "kiosk.rates-work-crp" in works(pair)
    for name in ("kiosk.rates", "kiosk"):
        pair.on_hub.delete(PLACEMENT, name)
    wait_until("the second goes", lambda: "" if missing(pair, ("prices", "depot")) else "it is still there")
    pair.leave("--timeout=120")


def labelled(name: str, namespace: str) -> dict[str, object]:
    return {"name": name, "namespace": namespace, "labels": {"app": name}}


def works(pair: Pair) -> dict[str, str]:
    """Whose each Work of the member is."""
    return {name_of(work): str(placement_of_work(work)) for work in pair.on_hub.all(WORK, SPACE)}


def missing(pair: Pair, *placed: tuple[str, str]) -> str:
    return ", ".join(name for name, space in placed if not pair.in_member.find(CONFIG_MAP, name, space))
