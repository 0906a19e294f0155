"""References of placements and runs, as every command reads them."""

import pytest

from scorer.api.family import FAMILIES
from webhook.cli.errors import UserError
from webhook.cli.hub.resource_arguments import parse_reference, take_reference

RUNS = tuple(family.run for family in FAMILIES)


@pytest.mark.parametrize(
    ("words", "namespace", "reference"),
    [
        (["payments"], None, "crp/payments"),
        (["crp", "payments"], None, "crp/payments"),
        (["crp/payments"], None, "crp/payments"),
        (["ClusterResourcePlacement/payments"], None, "crp/payments"),
        (["crp/payments"], "team-a", "crp/payments"),
        (["crp/crp"], None, "crp/crp"),
        (["web"], "team-a", "rp/team-a/web"),
        (["rp", "web"], "team-a", "rp/team-a/web"),
        (["rp/web"], None, "rp/home/web"),
        (["rp/team-a/web"], None, "rp/team-a/web"),
        (["rp", "team-a/web"], "team-a", "rp/team-a/web"),
    ],
)
def test_a_placement_is_named_in_any_form(words, namespace, reference):
    assert str(parse_reference(words, namespace, default="home")) == reference


@pytest.mark.parametrize(
    ("words", "namespace", "reference"),
    [
        (["spring"], "", "csur/spring"),
        (["csur", "spring"], "", "csur/spring"),
        (["spring"], "team-a", "sur/team-a/spring"),
        (["sur/team-a/spring"], "", "sur/team-a/spring"),
    ],
)
def test_a_run_is_named_in_any_form(words, namespace, reference):
    assert str(parse_reference(words, namespace, kinds=RUNS)) == reference


@pytest.mark.parametrize("words", [["crp"], ["crp/"], ["/web"], ["crp/a/b"], ["pod/web"], ["a", "b"], [""]])
def test_anything_else_is_refused(words):
    with pytest.raises(UserError, match="is not a placement: expected NAME, crp/NAME or rp/NAMESPACE/NAME"):
        parse_reference(words)


def test_the_words_after_a_placement_remain():
    assert take_reference(["crp", "web", "east", "west"])[1] == ("east", "west")
    assert take_reference(["web", "east"])[1] == ("east",)
    assert str(take_reference(["crp/web"])[0]) == "crp/web"
