"""Rendered content: the objects of a binding, in the order of application, or why there are none."""

from scorer.api.kinds import KINDS
from scorer.rollout.bindings import Overrides, bound
from scorer.rollout.views.rendering import ContentSources, RenderedContent, plan_content, rendered
from scorer.rollout.works.plan import WorkCause
from tests.scorer.rollout.placed_shop import FLEET, GROUP, make_binding, make_group, make_object

MEMBER = {"metadata": {"name": "a", "labels": {"env": "prod"}}}


def make_override(name, path="/metadata/labels", value="${MEMBER-CLUSTER-NAME}"):
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "web"}
    patch = {"op": "add", "path": path, "value": {"at": value}}
    rule = {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [patch]}
    return {
        "apiVersion": GROUP,
        "kind": "ResourceOverrideSnapshot",
        "metadata": {"name": name, "namespace": "x", "labels": {FLEET + "parent-resource-override": name[:-2]}},
        "spec": {"overrideSpec": {"resourceSelectors": [selector], "policy": {"overrideRules": [rule]}}},
    }


def sources_of(group, *overrides):
    lists = Overrides((), tuple((each["metadata"]["namespace"], each["metadata"]["name"]) for each in overrides))
    return ContentSources(bound(make_binding(), group.name, lists), MEMBER, group.documents, overrides)


def names(content):
    return [manifest["metadata"]["name"] for manifest in content.objects(KINDS)]


def test_objects_are_in_waves_across_works():
    envelope = make_object("e", "ResourceEnvelope", api_version=GROUP, data={"a": make_object("wrapped")})
    crowd = [make_object(name, size=500_000) for name in ("b", "c")]
    web = make_object("web", "Deployment", api_version="apps/v1")
    group = make_group([web, envelope, *crowd, make_object("x", "Namespace", namespace="")])
    content = rendered(sources_of(group))
    assert len(content.works) == 3
    assert names(content)[0] == "x"
    assert sorted(names(content)[1:4]) == ["b", "c", "wrapped"]
    assert names(content)[4:] == ["web"]


def test_variables_of_overrides_are_replaced():
    group = make_group([make_object("web")])
    (web,) = rendered(sources_of(group, make_override("zone-0"))).objects(KINDS)
    assert web["metadata"]["labels"] == {"at": "a"}


def test_overrides_that_the_binding_does_not_name_have_no_effect():
    group = make_group([make_object("web")])
    sources = sources_of(group)._replace(overrides=[make_override("zone-0")])
    assert "labels" not in rendered(sources).objects(KINDS)[0]["metadata"]


def test_an_override_that_fails_is_the_problem_of_the_loop():
    sources = sources_of(make_group([make_object("web")]), make_override("zone-0", path="/data/nothing/deep"))
    content = rendered(sources)
    assert content == RenderedContent((), plan_content(sources, ()).problem)
    assert content.problem.cause is WorkCause.OVERRIDDEN
    assert "for cluster a" in content.problem.message


def test_works_remain_as_they_are_when_new_ones_cannot_be_made():
    group = make_group([make_object("web")])
    before = rendered(sources_of(group))
    after = rendered(sources_of(group, make_override("zone-0", path="/nothing/deep")), before.works)
    assert after.works == before.works
    assert after.problem is not None


def test_rendering_again_on_the_result_changes_nothing():
    sources = sources_of(make_group([make_object("web")]), make_override("zone-0"))
    first = rendered(sources)
    assert rendered(sources, first.works).objects(KINDS) == first.objects(KINDS)
