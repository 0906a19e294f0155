"""People sign in to the page in a browser, with Dex, and see what a real API server says they may."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from e2e.conftest import StartService
from e2e.controlplane.cluster import LOOPBACK, Cluster, JsonObject
from e2e.controlplane.process import free_port, kill
from e2e.controlplane.provider import PASSWORD, SignInProvider
from e2e.controlplane.service import Service
from tests.machine import chromium_path
from tests.webhook.page.conftest import ARGUMENTS, PATIENCE

expect.set_options(timeout=PATIENCE)

RBAC = "/apis/rbac.authorization.k8s.io/v1"
VIEWERS = "oidc:viewers"
MEMBER = "/apis/cluster.kubernetes-fleet.io/v1/memberclusters"
SESSION = "__Host-harbormaster-session"
ID_TOKEN = "__Host-harbormaster-id-token"
SHOWN = "#fleet?q=sign"
TEN_HOURS = 36_000
SAID = {
    "clock": "The clocks of the provider and of this server differ too much. An administrator must correct one of "
    "them.",
    "code": "The provider rejected the authorization code: it was already used, or has expired. Sign in again.",
    "stale": "This sign-in was not started in this browser, timed out, or was replaced by a newer one. Sign in again.",
    "unreachable": "The provider cannot be reached from this server. Try again later.",
}
ASK = """async ([path, body]) => {
  const options = body ? { method: "POST", body, headers: { "Content-Type": "application/json" } } : {};
  return (await fetch(path, options)).status;
}"""


ACT = """async (body) => {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch("/v1/actions", { method: "POST", body: JSON.stringify(body), headers });
  return [answer.status, await answer.text()];
}"""


@dataclass
class Place:
    """A replica that people sign in to, the provider where they do, and a browser."""

    service: Service
    provider: SignInProvider
    browser: Browser


def reader() -> list[tuple[str, JsonObject]]:
    """The objects that let the group of viewers read."""
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    meta = {"metadata": {"name": "people-who-look"}}
    rules = [
        {"nonResourceURLs": ["/v1", "/v1/*"], "verbs": ["get", "post"]},
        {"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["get", "list"]},
    ]
    bound = {
        "roleRef": {**group, "kind": "ClusterRole", "name": "people-who-look"},
        "subjects": [{**group, "kind": "Group", "name": VIEWERS}],
    }
    return [("clusterroles", {**meta, "rules": rules}), ("clusterrolebindings", {**meta, **bound})]


@pytest.fixture(scope="module")
def place(
    programs: Mapping[str, Path], folder: Path, bare_hub: Cluster, start_service: StartService
) -> Iterator[Place]:
    """Ann is a viewer, Bob is nobody; both have an account with the provider."""
    port = free_port()
    page = f"https://{LOOPBACK}:{port}"
    provider = SignInProvider(programs["dex"], folder / "dex", page, {"ann": ["viewers"], "bob": []})
    for plural, document in reader():
        bare_hub.request("POST", f"{RBAC}/{plural}", document)
    member = {"identity": {"kind": "User", "name": "sign-in-member", "apiGroup": "rbac.authorization.k8s.io"}}
    kind = {"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster"}
    bare_hub.request("POST", MEMBER, {**kind, "metadata": {"name": "sign-in-member"}, "spec": member})
    try:
        provider.start()
        service = start_service(bare_hub, clock_seconds=0, port=port, page_actions="true", **provider.settings())
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
            yield Place(service, provider, browser)
            browser.close()
    finally:
        kill(provider.program)
        bare_hub.request("DELETE", f"{MEMBER}/sign-in-member")
        for plural, _ in reader():
            bare_hub.request("DELETE", f"{RBAC}/{plural}/people-who-look")


@pytest.fixture
def context(place: Place) -> Iterator[BrowserContext]:
    """A browser that has never been here."""
    found = place.browser.new_context(ignore_https_errors=True)
    found.set_default_timeout(PATIENCE)
    yield found
    found.close()


def sign_in(place: Place, context: BrowserContext, name: str) -> Page:
    """Open the page, go to the provider and come back."""
    page = context.new_page()
    page.goto(f"{place.service.url}/{SHOWN}")
    page.get_by_role("button", name="Sign in with Dex").click()
    page.wait_for_url(f"{place.provider.issuer}/**")
    page.locator("#login").fill(name)
    page.locator("#password").fill(PASSWORD)
    page.locator("#submit-login").click()
    page.wait_for_url(f"{place.service.url}/{SHOWN}")
    return page


def session_of(context: BrowserContext) -> Any:
    return next((cookie for cookie in context.cookies() if cookie["name"] == SESSION), None)


def expect_form(page: Page, words: str = "") -> None:
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("#sign-in-trouble")).to_have_text(words)
    expect(page.locator("#who")).to_be_hidden()


def test_a_viewer_signs_in_looks_and_signs_out(place: Place, context: BrowserContext) -> None:
    page = sign_in(place, context, "ann")
    expect(page.locator("#who")).to_have_text("oidc:ann@example.com")
    expect(page.locator("#fleet-body")).to_contain_text("sign-in-member")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    kept = session_of(context)
    assert (kept["httpOnly"], kept["secure"], kept["sameSite"]) == (True, True, "Lax")
    assert [cookie["name"] for cookie in context.cookies(place.service.url)] == [SESSION, ID_TOKEN]
    assert page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length") == 0

    assert page.evaluate(ASK, ["/v1/plan", "{}"]) == 200  # the page asks this, and none of the following
    for path in ("/v1/gate/disruption", "/v1/gate/reservations", "/v1/score"):
        assert page.evaluate(ASK, [path, "{}"]) == 401, path
    # another site that has the browser send the cookie
    for headers in ({"Origin": "https://evil.example.com"}, {}):
        refused = context.request.post(f"{place.service.url}/v1/plan", data={}, headers=headers)
        assert refused.status == 401, headers
        assert "only for requests from the page itself" in refused.text()

    page.get_by_role("button", name="Sign out").click()
    expect_form(page)
    assert session_of(context) is None
    log = place.service.program.log.read_text(encoding="utf-8")
    assert kept["value"] not in log
    assert "eyJ" not in log


def test_who_may_nothing_is_told_so_by_name(place: Place, context: BrowserContext) -> None:
    page = sign_in(place, context, "bob")
    expect(page.locator("#who")).to_have_text("oidc:bob@example.com")
    problems = page.locator("#problems")
    expect(problems).to_contain_text('"oidc:bob@example.com" may not read this fleet (403)')
    expect(problems).to_contain_text("get /v1/clusters")
    expect(page.locator("#live-text")).to_have_text("no access")


def test_a_session_that_was_changed_or_has_ended_is_none(place: Place, context: BrowserContext) -> None:
    page = sign_in(place, context, "ann")
    expect(page.locator("#fleet-body")).to_contain_text("sign-in-member")
    good = session_of(context)
    changed = {**good, "value": good["value"][:-20] + good["value"][-20:].swapcase()}
    context.add_cookies([changed])
    page.reload()
    expect_form(page)
    context.add_cookies([good])
    page.reload()
    expect(page.locator("#fleet-body")).to_contain_text("sign-in-member")
    expect(page.locator("#who")).to_be_visible()
    place.service.set_clock(TEN_HOURS)
    try:
        page.evaluate("dispatchEvent(new Event('online'))")  # the page connects again, as after a night asleep
        expect_form(page, "Your session has ended. Sign in again.")
    finally:
        place.service.set_clock(0)


def way_back(place: Place, context: BrowserContext) -> tuple[Page, str]:
    """Go to the provider; return the address to which it sends Ann back, before the browser goes there."""
    page = context.new_page()
    page.goto(f"{place.service.url}/{SHOWN}")
    page.get_by_role("button", name="Sign in with Dex").click()
    form = page.locator("form")
    expect(form).to_be_visible()
    answer = context.request.post(
        urljoin(page.url, form.get_attribute("action") or ""),
        form={"login": "ann", "password": PASSWORD},
        max_redirects=0,
    )
    return page, answer.headers["location"]


def test_a_code_counts_once_and_in_the_browser_that_has_begun(place: Place, context: BrowserContext) -> None:
    page, back = way_back(place, context)
    begun = context.cookies(place.service.url)
    page.goto(back)
    expect(page.locator("#who")).to_be_visible()
    context.clear_cookies()
    page.goto(back)
    expect_form(page, SAID["stale"])
    context.add_cookies(begun)
    page.goto(back)
    expect_form(page, SAID["code"])
    assert session_of(context) is None


def test_clocks_that_differ_are_said(place: Place, context: BrowserContext) -> None:
    page, back = way_back(place, context)
    place.service.set_clock(-300)  # what began is still good
    try:
        page.goto(back)
        expect_form(page, SAID["clock"])
    finally:
        place.service.set_clock(0)


def test_a_provider_that_is_away_is_said(place: Place, context: BrowserContext) -> None:
    page, back = way_back(place, context)
    kill(place.provider.program)
    try:
        page.goto(back)
        expect_form(page, SAID["unreachable"])
        assert page.url == f"{place.service.url}/{SHOWN}"
    finally:
        place.provider.start()
        kill(place.service.program)  # for ten seconds it would not ask for the keys that the provider has made anew
        place.service.start()


def test_an_action_forwards_the_id_token_which_this_api_server_does_not_trust(
    place: Place, context: BrowserContext
) -> None:
    """The API server has no provider. Its 401 shows that it was asked with the token of the viewer, not with ours."""
    page = sign_in(place, context, "ann")
    [kept] = [cookie for cookie in context.cookies() if cookie["name"] == ID_TOKEN]
    assert (kept["httpOnly"], kept["secure"], kept["sameSite"]) == (True, True, "Strict")
    order = {"action": "cordon", "target": {"kind": "MemberCluster", "name": "sign-in-member"}, "dryRun": True}
    status, answer = page.evaluate(ACT, order)
    assert status == 403
    assert "the API server of the hub does not accept the ID token of your session (401 Unauthorized)" in answer
    assert "(--oidc-issuer-url, --oidc-client-id)" in answer
    assert "eyJ" not in answer
    page.get_by_role("button", name="Sign out").click()
    expect_form(page)
    assert [cookie for cookie in context.cookies() if cookie["name"] in (SESSION, ID_TOKEN)] == []
