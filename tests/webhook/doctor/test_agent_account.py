"""Whether the account of an agent has, in its member, what it needs and nothing beyond."""

from copy import deepcopy

import pytest

from tests.webhook.doctor.empty_hub import EmptyHub
from webhook.doctor.accounts import judge_account
from webhook.doctor.agent_account import CHECK, account_of_agent, examine_member, places_of_agents
from webhook.doctor.finding import State
from webhook.doctor.rights import Roles
from webhook.kube.ports import ForbiddenError, UnavailableError
from webhook.processes.agent_installation import AgentRequest, Image, InstallMethod, agent_deployment
from webhook.processes.member_objects import AGENT
from webhook.processes.rbac import SelectedResources, agent_roles, default_applied
from webhook.processes.rbac_objects import documents, service_account

HOME = "quay"
USER = f"system:serviceaccount:{HOME}:{AGENT}"
SUBJECT = service_account(HOME, AGENT)
EVERYTHING = SelectedResources(everything=True)


def printed(*extra, applied=None, apply_rbac=False):
    """Roles of a member with what is printed for its agent, and rules beyond that."""
    needed = agent_roles(default_applied() if applied is None else applied, HOME, apply_rbac=apply_rbac)
    found = [deepcopy(document) for document, _ in documents(needed, SUBJECT)]
    next(each for each in found if each["kind"] == "ClusterRole")["rules"] += extra
    bindings = [each for each in found if each["kind"].endswith("Binding")]
    return [each for each in found if each not in bindings], bindings


def by_manifests():
    """Return the Deployment that ``join`` makes without Helm."""
    image = Image.parse("registry.example.com/harbormaster:1")
    return agent_deployment(AgentRequest("berlin", HOME, image, InstallMethod.MANIFESTS, False), image).document


def judge(roles, bindings, denied=()):
    return judge_account(account_of_agent(HOME, AGENT, Roles.of(roles, bindings)), denied)


def rule(group, resource, *verbs):
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        pytest.param({}, "no others. Placements may place 44 kinds, including Secrets", id="default"),
        pytest.param({"applied": SelectedResources()}, "no others. Placements may place 0 kinds", id="nothing"),
        pytest.param({"applied": EVERYTHING}, "Placements may place every kind, including Secrets", id="everything"),
        pytest.param({"apply_rbac": True}, "may place roles, which can grant it any right, and 44", id="roles"),
    ],
)
def test_what_placements_may_place_is_the_operators_choice(how, said):
    finding = judge(*printed(**how))
    assert (finding.check, finding.state, finding.problems) == (CHECK, State.OK, ())
    assert said in finding.found


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        pytest.param(rule("", "pods/exec", "create"), "may create pods/exec, but does not need to", id="exec"),
        pytest.param(rule("", "users", "impersonate"), "may impersonate users, but does not need to", id="impersonate"),
        pytest.param(rule("*", "*", "*"), "may * *.*, but does not need to", id="everything"),
        pytest.param(
            rule("rbac.authorization.k8s.io", "clusterrolebindings", "create"),
            "may create clusterrolebindings.rbac.authorization.k8s.io, but does not need to",
            id="binds-without-being-meant-to",
        ),
        pytest.param(
            rule("example.com", "boats", "create", "get", "list", "watch"),
            "may not delete, patch, update boats.example.com",
            id="a-kind-that-it-applies-in-part",
        ),
    ],
)
def test_anything_else_is_a_problem(extra, problem):
    finding = judge(*printed(extra))
    assert finding.state is State.WRONG
    assert finding.problems == (f"{USER} {problem}",)


def test_a_right_that_is_missing_is_named():
    roles, bindings = printed()
    for each in roles:
        each["rules"] = [rule for rule in each["rules"] if "appliedworks/status" not in rule.get("resources", ())]
    finding = judge(roles, bindings)
    assert finding.problems == (f"{USER} may not update appliedworks/status.placement.kubernetes-fleet.io",)
    assert finding.advice.startswith("harbormaster rbac agent | kubectl apply")


def test_an_agent_is_found_by_its_deployment_whatever_it_is_called():
    by_join = by_manifests()
    labels = {f"app.kubernetes.io/{name}": text for name, text in (("part-of", "harbormaster"), ("component", "agent"))}
    spec = {"template": {"spec": {"serviceAccountName": "pilot"}}}
    by_chart = {"metadata": {"name": "a", "namespace": "dock", "labels": labels}, "spec": spec}
    other = {"metadata": {"name": "b", "namespace": "dock", "labels": {}}, "spec": spec}
    assert places_of_agents([by_join, by_chart, other]) == [("dock", "pilot"), (HOME, AGENT)]
    assert places_of_agents([other]) == [("harbormaster-system", AGENT)]


async def test_a_member_is_asked_for_roles_and_for_what_it_allows():
    roles, bindings = printed()

    def listing(kind):
        return {
            "metadata": {"resourceVersion": "1"},
            "items": [each for each in (*roles, *bindings) if each["kind"] == kind],
        }

    answers = {
        f"{kind.lower()}s": listing(kind) for kind in ("ClusterRoleBinding", "RoleBinding", "ClusterRole", "Role")
    }
    answers["deployments"] = {**listing(""), "items": [by_manifests()]}
    [well] = await examine_member(EmptyHub(**answers))
    assert (well.check, well.state) == (CHECK, State.OK)
    refusing = EmptyHub(**answers, subjectaccessreviews={"status": {"allowed": False}})
    [finding] = await examine_member(refusing)
    assert all("although its roles allow it" in each for each in finding.problems[:-1])


@pytest.mark.parametrize("error", [ForbiddenError("no"), UnavailableError("https://berlin does not answer")])
async def test_a_member_that_tells_nothing_leaves_it_unchecked(error):
    [finding] = await examine_member(EmptyHub(clusterroles=error))
    assert (finding.check, finding.state) == (CHECK, State.UNCHECKED)
    assert str(error) in finding.found
