"""The work of reviewing all objects of a hub grows with their number, not with its square."""

import pytest

from tests.builders.binding import make_binding
from tests.builders.placement import make_placement
from tests.webhook.validation.live_objects import NAMESPACE, NOW, make_member, plain
from webhook.admission.rehearsal import rehearse
from webhook.validation.framework.context import Context
from webhook.validation.live.check import run_checks
from webhook.validation.live.placement import CHECKS

CONFIG = {"group": "", "version": "v1", "kind": "ConfigMap"}
LABELLED = {**NAMESPACE, "name": "", "labelSelector": {"matchLabels": {"a": "b"}}}


class CountedDocument(dict):
    """A stored object that counts how often it is read."""

    reads = 0

    def get(self, *words):
        CountedDocument.reads += 1
        return super().get(*words)

    def __getitem__(self, word):
        CountedDocument.reads += 1
        return super().__getitem__(word)


def selected(number):
    return {**NAMESPACE, "name": f"ns-{number}"}


def configs(number):
    return {**CONFIG, "name": f"cm-{number}"}


def make(number, selectors, namespace=""):
    document = make_placement(f"p-{number}", selectors=selectors)
    if namespace:
        document |= {"kind": "ResourcePlacement", "metadata": {"name": f"p-{number}", "namespace": namespace}}
    return document


def reads(placements, others):
    """Return how often stored objects are read while each of *placements* is reviewed."""
    hub = [CountedDocument(document) for document in (*placements, *others)]
    context = Context.of_objects(hub, now=NOW)
    CountedDocument.reads = 0
    for document in placements:
        rehearse(document, None, "CREATE", context)
        run_checks(CHECKS, document, None, context)
    return CountedDocument.reads


@pytest.mark.parametrize(
    ("placed", "others"),
    [
        pytest.param(lambda n: make(n, [selected(n)]), lambda _n: [], id="placements-alone"),
        pytest.param(
            lambda n: make(n, [selected(n)]), lambda n: [plain("v1", "Namespace", f"ns-{n}")], id="with-namespaces"
        ),
        pytest.param(lambda n: make(n, [selected(n)]), lambda n: [make_binding(f"p-{n}", "dover")], id="with-bindings"),
        pytest.param(lambda n: make(n, [LABELLED]), lambda _n: [], id="by-labels"),
        pytest.param(lambda n: make(n, [configs(n)], f"team-{n}"), lambda _n: [], id="namespaced"),
        pytest.param(lambda n: make(n, [configs(n)], "team"), lambda _n: [], id="one-namespace"),
    ],
)
def test_twice_as_many_placements_take_twice_the_reads(placed, others):
    few, many = (
        reads(
            [placed(n) for n in range(number)], [make_member("dover"), *(o for n in range(number) for o in others(n))]
        )
        for number in (40, 80)
    )
    assert many <= 2.5 * few
