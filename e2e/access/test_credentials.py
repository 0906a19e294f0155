"""Who gets answers from ``/v1``: tokens, roles and client certificates of a real API server, and its outages."""

import base64
import json
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from certs.authority import Authority
from e2e.conftest import StartService
from e2e.controlplane.client_certificate import issue_client_certificate
from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER, Answer, Service
from e2e.fleet.objects import Objects, make_namespace
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, LEASE, NODE, NODE_CLAIM, OUR_KINDS

NAMESPACE = "harbormaster-system"
AUDIENCE = f"harbormaster.{NAMESPACE}.svc"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
PLACEMENT_GROUP = "placement.kubernetes-fleet.io"
QUESTION = {"placement": {"inline": {"placementType": "PickAll"}}}


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Cluster:
    """A hub with some accounts and some placements, which is stopped and killed."""
    for name in (NAMESPACE, "shop"):
        Objects(own_hub).apply([make_namespace(name)])
    for name in ("harbormaster", "scorer", "stranger"):
        own_hub.request("POST", ACCOUNT, {"metadata": {"name": name}})
    write_rights(own_hub)
    return own_hub


def write_rights(cluster: Cluster) -> None:
    """Harbormaster may review and read, no more; the scorer may ask some questions and get one placement."""
    groups: dict[str, list[str]] = {}
    definitions = CUSTOM_RESOURCE_DEFINITION
    for kind in (*OUR_KINDS, definitions, NODE, NODE_CLAIM, LEASE, KINDS["", "Namespace"], KINDS["", "ConfigMap"]):
        groups.setdefault(kind.group, []).append(kind.plural)
    groups["admissionregistration.k8s.io"] = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"]
    reads = [
        {"apiGroups": [group], "resources": plurals, "verbs": ["get", "list", "watch"]}
        for group, plurals in groups.items()
    ]
    asks = [
        {"nonResourceURLs": ["/v1/score", "/v1/filter", "/v1/explain"], "verbs": ["post"]},
        {"nonResourceURLs": ["/v1/clusters/*", "/v1/placements", "/v1/placements/*"], "verbs": ["get"]},
        {
            "apiGroups": [PLACEMENT_GROUP],
            "resources": ["clusterresourceplacements"],
            "resourceNames": ["open"],
            "verbs": ["get"],
        },
    ]
    us, scorer = account("harbormaster"), account("scorer")
    roles = [
        ("ClusterRole", "harbormaster", reads, None),
        ("ClusterRole", "scorer", asks, None),
        ("ClusterRoleBinding", "harbormaster", "harbormaster", us),
        ("ClusterRoleBinding", "harbormaster:auth-delegator", "system:auth-delegator", us),
        ("ClusterRoleBinding", "scorer", "scorer", scorer),
        ("ClusterRoleBinding", "schedulers", "scorer", {"kind": "Group", "name": "schedulers", "apiGroup": GROUP}),
    ]
    for kind, name, content, subject in roles:
        path = f"{RBAC}/{kind.lower()}s"
        if subject is None:
            cluster.request("POST", path, {"metadata": {"name": name}, "rules": content})
        else:
            reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": content}
            cluster.request("POST", path, {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})
    cluster.request(
        "POST",
        f"{RBAC}/namespaces/kube-system/rolebindings",
        {
            "metadata": {"name": "harbormaster"},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
            "subjects": [us],
        },
    )
    placement = {"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "a"}]}
    for name in ("cart", "stock"):
        path = f"/apis/{PLACEMENT_GROUP}/v1beta1/namespaces/shop/resourceplacements"
        document = {"apiVersion": f"{PLACEMENT_GROUP}/v1beta1", "kind": "ResourcePlacement", "spec": placement}
        cluster.request("POST", path, document | {"metadata": {"name": name}})
    placement = {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]}
    for name in ("open", "closed"):
        path = f"/apis/{PLACEMENT_GROUP}/v1beta1/clusterresourceplacements"
        document = {"apiVersion": f"{PLACEMENT_GROUP}/v1beta1", "kind": "ClusterResourcePlacement", "spec": placement}
        cluster.request("POST", path, document | {"metadata": {"name": name}})


GROUP = "rbac.authorization.k8s.io"


def account(name: str) -> JsonObject:
    return {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name}


@pytest.fixture(scope="module")
def replica(cluster: Cluster, start_service: StartService) -> Service:
    """A replica that is the ServiceAccount with those rights, and has no others."""
    token = cluster.token_of(NAMESPACE, "harbormaster")
    return start_service(cluster, cluster.write_kubeconfig("harbormaster", token), failed_logins_per_second=1000)


def fresh(cluster: Cluster, name: str = "scorer", audience: str | None = AUDIENCE) -> str:
    """A token that nobody has seen yet."""
    return cluster.token_of(NAMESPACE, name, audience)


def score(replica: Service, token: str = "", **how: Any) -> Answer:
    return replica.ask("POST", "/v1/score", QUESTION, token=token, **how)


def assert_problem(answer: Answer, status: int, slug: str) -> str:
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.document["type"] == f"urn:harbormaster:problem:{slug}"
    assert answer.document["instance"] == f"urn:uuid:{answer.headers['X-Request-Id']}"
    return str(answer.document["detail"])


def assert_unauthenticated(answer: Answer) -> None:
    assert AUDIENCE in assert_problem(answer, 401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="harbormaster"'


def assert_not_ready(answer: Answer) -> None:
    assert_problem(answer, 503, "not-ready")
    assert int(answer.headers["Retry-After"]) > 0


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def signed_token(cluster: Cluster, name: str, seconds: float) -> str:
    """A token signed with the cluster's own key, that ends in *seconds*: what a TokenRequest gives, at any age."""
    key = serialization.load_pem_private_key((cluster.folder / "service-account.key").read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    uid = cluster.request("GET", f"{ACCOUNT}/{name}")[0]["metadata"]["uid"]
    now = int(datetime.now(UTC).timestamp())
    claims = {
        "iss": "https://kubernetes.default.svc",
        "aud": [AUDIENCE],
        "sub": f"system:serviceaccount:{NAMESPACE}:{name}",
        "iat": now - 7200,
        "nbf": now - 7200,
        "exp": now + int(seconds),
        "kubernetes.io": {"namespace": NAMESPACE, "serviceaccount": {"name": name, "uid": uid}},
    }
    text = b".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return b".".join((text, encoded(key.sign(text, padding.PKCS1v15(), hashes.SHA256())))).decode()


def encoded(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


@pytest.mark.core
def test_the_right_token_and_role_get_answers(cluster, replica):
    answer = score(replica, fresh(cluster))
    assert answer.status == 200, answer.body
    assert answer.document["items"] == []
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "audience", [pytest.param(None, marks=pytest.mark.core), "harbormaster.elsewhere.svc", AUDIENCE.upper()]
)
def test_a_token_for_another_audience_does_not(cluster, replica, audience):
    assert_unauthenticated(score(replica, fresh(cluster, audience=audience)))


@pytest.mark.core
def test_nobody_does_not(replica):
    assert_unauthenticated(score(replica))
    assert_unauthenticated(score(replica, "garbage"))


@pytest.mark.core
def test_without_the_role_the_refusal_says_who_may_not_do_what(cluster, replica):
    detail = assert_problem(score(replica, fresh(cluster, "stranger")), 403, "forbidden")
    assert detail == f'"system:serviceaccount:{NAMESPACE}:stranger" may not post /v1/score'
    token = fresh(cluster)
    assert replica.ask("GET", "/v1/clusters/atlantis", token=token).status == 404
    detail = assert_problem(replica.ask("GET", "/v1/clusters", token=token), 403, "forbidden")
    assert detail == f'"system:serviceaccount:{NAMESPACE}:scorer" may not get /v1/clusters'
    for verb in ("get", "post"):
        assert_problem(
            replica.ask(verb.upper(), f"/v1/{'events' if verb == 'get' else 'validate'}", token=token), 403, "forbidden"
        )


def test_an_expired_token_does_not(cluster, replica):
    assert score(replica, signed_token(cluster, "scorer", 3600)).status == 200
    assert_unauthenticated(score(replica, signed_token(cluster, "scorer", -60)))


def test_a_token_of_an_account_that_is_gone_does_not(cluster, replica):
    cluster.request("POST", ACCOUNT, {"metadata": {"name": "leaver"}})
    first, second = (fresh(cluster, "leaver") for _ in range(2))
    assert_problem(score(replica, first), 403, "forbidden")
    cluster.request("DELETE", f"{ACCOUNT}/leaver")
    assert_unauthenticated(score(replica, second))


@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [("ResourcePlacement", "shop", "cart"), ("ClusterResourcePlacement", "", "closed")],
)
def test_a_placement_that_one_may_not_get_is_not_there(cluster, replica, kind, namespace, name):
    """Nothing tells it from one that does not exist."""
    token = fresh(cluster)
    for which in (name, "no-such-thing"):
        ref = {"kind": kind, "name": which} | ({"namespace": namespace} if namespace else {})
        shown = f"rp/shop/{which}" if namespace else f"crp/{which}"
        for path in ("score", "filter", "explain"):
            answer = replica.ask("POST", f"/v1/{path}", {"placement": {"ref": ref}}, token=token)
            assert assert_problem(answer, 404, "not-found") == f"there is no placement {shown}"
        answer = replica.ask("GET", f"/v1/placements/{shown}", token=token)
        assert assert_problem(answer, 404, "not-found") == f"there is no placement {shown}"
    assert replica.ask("GET", "/v1/placements", token=token).document["items"] == []


@pytest.mark.core
def test_one_that_one_may_get_is_there(cluster, replica):
    token = fresh(cluster)
    assert replica.ask("GET", "/v1/placements/crp/open", token=token).document["name"] == "open"
    role = {
        "metadata": {"name": "stock"},
        "rules": [{"apiGroups": [PLACEMENT_GROUP], "resources": ["resourceplacements"], "verbs": ["get"]}],
    }
    cluster.request("POST", f"{RBAC}/namespaces/shop/roles", role)
    binding = {
        "metadata": {"name": "stock"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "stock"},
        "subjects": [account("stranger")],
    }
    cluster.request("POST", f"{RBAC}/namespaces/shop/rolebindings", binding)
    paths = {"metadata": {"name": "stranger"}, "rules": [{"nonResourceURLs": ["/v1/placements/*"], "verbs": ["get"]}]}
    cluster.request("POST", f"{RBAC}/clusterroles", paths)
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "stranger"}
    bound = {"metadata": {"name": "stranger"}, "roleRef": reference, "subjects": [account("stranger")]}
    cluster.request("POST", f"{RBAC}/clusterrolebindings", bound)
    token = fresh(cluster, "stranger")
    wait_until(
        lambda: replica.ask("GET", "/v1/placements/rp/shop/stock", token=token).status == 200,
        "the new right is not seen",
    )
    assert replica.ask("GET", "/v1/placements/crp/open", token=token).status == 404


@pytest.mark.core
def test_a_client_certificate_of_the_hub_names_user_and_groups(cluster, replica, tmp_path):
    wait_until(
        lambda: replica.metric('harbormaster_certificate_renewals_total{result="success",role="client_ca"}') >= 1,
        "the authorities of clients were not read",
    )
    scheduler = cluster.issue_client_certificate("ann", ("schedulers",), tmp_path)
    assert score(replica, client=scheduler).status == 200
    nobody = cluster.issue_client_certificate("bob", (), tmp_path)
    detail = assert_problem(score(replica, client=nobody), 403, "forbidden")
    assert detail == '"bob" may not post /v1/score'


def test_a_certificate_of_another_authority_is_not_looked_at_further(cluster, replica, tmp_path):
    foreign = issue_client_certificate(Authority.new(datetime.now(UTC)), tmp_path, "ann", ("system:masters",))
    with pytest.raises(OSError, match=r"(?i)unknown ca|reset|eof|closed|broken pipe"):
        score(replica, fresh(cluster), client=foreign)
    assert score(replica, fresh(cluster)).status == 200


def test_one_caller_may_ask_so_often(cluster, start_service):
    busy = start_service(cluster, requests_per_second=0.01, request_burst=3, failed_logins_per_second=0.01)
    token = fresh(cluster)
    assert [score(busy, token).status for _ in range(4)] == [200, 200, 200, 429]
    answer = score(busy, token)
    assert "rate limit of" in assert_problem(answer, 429, "rate-limited")
    assert int(answer.headers["Retry-After"]) > 0
    assert_problem(score(busy, fresh(cluster, "stranger")), 403, "forbidden")
    assert_unauthenticated(score(busy, "garbage"))
    assert "invalid credentials" in assert_problem(score(busy, "more"), 429, "rate-limited")
    newcomer = fresh(cluster, "stranger")  # which nobody has seen: it says for whom it is made, as garbage does not
    assert_problem(score(busy, newcomer), 403, "forbidden")
    assert_problem(score(busy, token), 429, "rate-limited")
    busy.program.stop()


def test_an_authority_in_a_file_takes_the_place_of_the_hubs(cluster, start_service, tmp_path):
    ours, next_one = (Authority.new(datetime.now(UTC)) for _ in range(2))
    file = tmp_path / "clients.crt"
    file.write_bytes(ours.pem)
    named = start_service(cluster, client_ca=file)
    scorers = {
        authority: issue_client_certificate(authority, tmp_path / str(number), "ann", ("schedulers",))
        for number, authority in enumerate((ours, next_one))
    }
    assert score(named, client=scorers[ours]).status == 200
    with pytest.raises(OSError):
        score(named, client=cluster.issue_client_certificate("ann", ("schedulers",), tmp_path))
    renewed = 'harbormaster_certificate_renewals_total{result="%s",role="client_ca"}'
    file.write_bytes(b"half of a cert")
    wait_until(lambda: named.metric(renewed % "failure") > 0, "the broken file was not read")
    assert score(named, client=scorers[ours]).status == 200
    file.write_bytes(next_one.pem)
    wait_until(lambda: named.metric(renewed % "success") > 1, "the new file was not read")
    assert score(named, client=scorers[next_one]).status == 200
    with pytest.raises(OSError):
        score(named, client=scorers[ours])
    named.program.stop()


def test_while_the_api_server_hangs_nobody_new_is_let_in(cluster, replica):
    known = fresh(cluster)
    news = [fresh(cluster) for _ in range(3)]
    assert score(replica, known).status == 200
    cluster.apiserver.send(signal.SIGSTOP)
    try:
        assert_not_ready(score(replica, news[0]))
        assert score(replica, known).status == 200  # found out less than a minute ago
        assert_not_ready(replica.ask("GET", "/v1/clusters/atlantis-2", token=news[1]))
    finally:
        cluster.apiserver.send(signal.SIGCONT)
    wait_until(lambda: score(replica, news[2]).status == 200, "nobody is let in after the outage")


def test_while_it_is_dead_what_was_known_ends_too(cluster, replica, tmp_path):
    """A minute after a token was looked at it has to be looked at again, and nobody is there to do it."""
    known, new = fresh(cluster), fresh(cluster)
    certificate = cluster.issue_client_certificate("cat", ("schedulers",), tmp_path)
    assert score(replica, known).status == 200
    cluster.apiserver.stop(number=signal.SIGKILL)
    try:
        assert_not_ready(score(replica, new))
        assert_not_ready(score(replica, client=certificate))  # who it is needs nobody; what they may do does
        assert_not_ready(score(replica, "garbage"))
        assert_unauthenticated(score(replica))
        wait_until(lambda: score(replica, known).status == 503, "an old answer is used for ever")
        assert_not_ready(score(replica, known))
    finally:
        cluster.start()
    for token in (known, new):
        wait_until(lambda token=token: score(replica, token).status == 200, "nobody is let in after the outage")


def test_no_token_is_in_the_log(cluster, replica):
    token = fresh(cluster)
    for text in (token, token, "x" + token):
        score(replica, text)
    log = replica.program.log.read_text(encoding="utf-8")
    assert token[:40] not in log
    assert "Bearer" not in log
    for result in ("allow", "deny", "cache"):
        assert replica.metric(f'harbormaster_auth_reviews_total{{kind="token",result="{result}"}}') > 0


def test_the_command_line_says_what_is_wrong_with_a_token(cluster, replica, tmp_path):
    def explain(token: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "token"
        file.write_text(token, encoding="ascii")
        command = [HARBORMASTER, "explain", "crp/open", f"--server={replica.url}"]
        command += [f"--token-file={file}", f"--ca-file={replica.ca_file}"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    done = explain(fresh(cluster))
    assert done.returncode == 0, done.stderr
    done = explain(fresh(cluster, audience=None))
    assert done.returncode == 1
    assert "does not accept the token: has it expired, or is it for another audience?" in done.stderr
    assert f"kubectl create token NAME --audience {AUDIENCE}" in done.stderr
    done = explain(fresh(cluster, "stranger"))
    assert done.returncode == 1
    assert f'"system:serviceaccount:{NAMESPACE}:stranger" may not' in done.stderr
