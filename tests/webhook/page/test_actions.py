"""Actions on the page over a real hub: what a dialog shows, what it sends, and where the focus is."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from scorer.api.kinds import APPROVAL_REQUEST, KINDS, MEMBER_CLUSTER, PLACEMENT, STAGED_RUN, STAGED_STRATEGY
from scorer.api.meta import format_time
from scorer.api.names import CONFIRM_REMOVAL, REJECTED
from scorer.api.unstructured.documents import annotation, conditions_of, with_metadata, with_spec
from scorer.staged_update.orders import approved_conditions
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.world import make_member, pick_n
from tests.webhook.edits import edit
from tests.webhook.page.axe import COLOURS, FINDINGS, script
from tests.webhook.page.conftest import LEGIBLE, MEASURE, PATIENCE, VIEWS, Tabs, show
from tests.webhook.page.fixture_clock import NOW, HubClock
from tests.webhook.page.fixture_objects import rendered
from tests.webhook.services import LISTENERS
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.endpoints.http.services import PageFacts
from webhook.history.query import Query
from webhook.kube.ports import Key
from webhook.processes.up import Up
from webhook.runtime.clock import utc_now
from webhook.settings.programs import UpSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")

RUN = "ledger-1"
ROLL_BACK = re.compile("^Roll back to snapshot 0$")
NO_ROLLBACK = (
    f"Rollback unavailable: run {RUN} cannot be undone: its clusters had no resource snapshot other than 0. "
    "Existing snapshots: 0."
)


@asynccontextmanager
async def waiting_hub(data: Path, page: PageFacts | None = None, **settings) -> AsyncIterator[Up]:
    """Run a hub with actions, and a run that waits for its approval."""
    stages = [
        {
            "name": "first",
            "labelSelector": {"matchLabels": {"stage": "first"}},
            "afterStageTasks": [{"type": "Approval"}],
        },
        {"name": "rest", "labelSelector": {"matchLabels": {"stage": "rest"}}},
    ]
    spec = {"placementName": "ledger", "stagedRolloutStrategyName": "twice", "state": "Run"}
    objects = (
        (KINDS["", "Namespace"], {"metadata": {"name": "ledger"}}),
        (STAGED_STRATEGY, {"metadata": {"name": "twice"}, "spec": {"stages": stages}}),
        (STAGED_RUN, {"metadata": {"name": RUN}, "spec": spec}),
    )
    async with Up(UpSettings(**(LISTENERS | {"page_actions": True} | settings)), data, now=HubClock(), page=page) as up:
        for name, stage in (("amsterdam", "first"), ("bergen", "rest")):
            await up.store.create(MEMBER_CLUSTER, status_in_annotation(make_member(name, nodes=3, stage=stage)))
        placement = make_placement("ledger", pick_n(2), home="ledger", strategy={"type": "External"})
        await up.store.create(PLACEMENT, placement)
        for kind, document in objects:
            await up.store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
            assert await up.settled(PATIENCE / 1000)
        yield up


@asynccontextmanager
async def opened(tabs: Tabs, address: str, token: str = "", **options) -> AsyncIterator[Page]:
    """Open the page; with a token, its viewer has signed in."""
    async with tabs.open(**options) as page:
        await page.goto(address)
        if token:
            await page.get_by_label("Token").fill(token)
            await page.get_by_role("button", name="Sign in", exact=True).click()
        yield page
        assert await page.evaluate("window.violations") == []


def token_of(up: Up) -> str:
    return up.token_file.read_text(encoding="ascii")


async def test_without_the_setting_nothing_acts(tmp_path, tabs):
    async with (
        waiting_hub(tmp_path / "data", page_actions=False) as up,
        opened(tabs, f"{up.http_url}/#csur/{RUN}") as page,
    ):
        await expect(page.locator("#run .command")).to_have_text(f"harbormaster approve {RUN} --stage first")
        await expect(page.locator("button[data-action]")).to_have_count(0)
        await expect(page.get_by_text("This page is read-only: run the commands in your terminal.")).to_be_visible()


async def test_an_approval_is_shown_confirmed_and_followed(tmp_path, tabs):
    async with (
        waiting_hub(tmp_path / "data") as up,
        opened(tabs, f"{up.https_url}/#csur/{RUN}", token_of(up)) as page,
    ):
        dialog = page.get_by_role("dialog")
        approve = page.get_by_role("button", name=f"Approve {RUN}", exact=True)
        await expect(approve).to_be_visible()
        for width, scheme in (*VIEWS, (390, "dark")):
            await show(page, width, scheme)
            measured = await page.evaluate(MEASURE)
            seen = {key: measured[key] for key in LEGIBLE}
            assert seen == LEGIBLE, f"{width} px, {scheme}"
        await show(page)
        await approve.focus()
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("heading", level=2)).to_have_text(f"Approve {RUN}")
        await expect(dialog.locator(".command")).to_have_text(f"harbormaster approve {RUN} --stage first")
        await expect(dialog.get_by_role("list", name="Effect")).to_have_text(
            "Stage rest then updates 1 cluster (bergen)."
        )
        await page.evaluate(script().read_text(encoding="utf-8"))
        for width, scheme in (*VIEWS, (390, "dark")):
            await show(page, width, scheme)
            assert await page.evaluate(FINDINGS) == []
            assert await page.evaluate(FINDINGS, COLOURS) == []
            assert (await page.evaluate(MEASURE))["overflow"] == 0, (width, scheme)
            assert await dialog.evaluate("(box) => box.scrollWidth <= box.clientWidth"), (width, scheme)
        await show(page)
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        await expect(approve).to_be_focused()
        assert not conditions_of(await up.store.get(APPROVAL_REQUEST, Key(f"{RUN}-after-first")))
        await page.keyboard.press("Enter")
        await dialog.get_by_label("Reason (optional)").fill("errors are flat")
        await expect(dialog.get_by_role("button", name="Confirm", exact=True)).to_be_enabled()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("status")).to_have_text(f"{RUN}-after-first approved: run {RUN} continues")
        await expect(dialog.get_by_role("button", name="Close", exact=True)).to_be_focused()
        given = conditions_of(await up.store.get(APPROVAL_REQUEST, Key(f"{RUN}-after-first")))
        assert "approved by harbormaster:up: errors are flat" in [each["message"] for each in given]
        found = await up.services.history.find(Query(reason="ApprovalGiven"))
        assert [(each.about.name, each.by) for each in found.entries] == [(RUN, "harbormaster:up")]
        await expect(page.locator("#run-sub .pill")).to_have_text("succeeded")
        await page.keyboard.press("Enter")
        await expect(page.locator("#main")).to_be_focused()  # the button has gone with the wait
        await expect(page.get_by_role("button", name=ROLL_BACK)).to_have_count(0)
        await expect(page.get_by_text(NO_ROLLBACK, exact=True)).to_be_visible()
        await expect(page.get_by_text("Actions are executed with your rights, after you confirm them.")).to_be_visible()


async def test_a_rejection_needs_a_reason_and_a_stale_effect_is_not_executed(tmp_path, tabs):
    async with (
        waiting_hub(tmp_path / "data") as up,
        opened(tabs, f"{up.https_url}/#csur/{RUN}", token_of(up)) as page,
    ):
        dialog = page.get_by_role("dialog")
        await page.get_by_role("button", name=f"Reject {RUN}", exact=True).click()
        confirm = dialog.get_by_role("button", name="Confirm", exact=True)
        await expect(confirm).to_be_enabled()
        await confirm.click()
        assert await dialog.get_by_role("textbox", name="Reason", exact=True).evaluate(
            "(field) => field.matches(':user-invalid, :invalid')"
        )
        await dialog.get_by_role("textbox", name="Reason", exact=True).fill("errors have doubled")
        await edit(up.store, STAGED_RUN, Key(RUN), partial(with_spec, state="Stop"))
        await expect(page.locator("#run-sub .pill")).to_have_text("stopped")
        await confirm.click()
        await expect(dialog.get_by_role("status")).to_contain_text("is not waiting for an approval")
        again = dialog.get_by_role("button", name="Check again", exact=True)
        await expect(again).to_have_class("act primary")  # the state of the run may be another one by now
        next_step = dialog.locator(".action-next")
        await expect(next_step).to_have_text("Nothing was changed. Check again to see the current effect.")
        await again.click()
        await expect(again).to_have_class("act")
        await expect(dialog.get_by_role("status")).to_contain_text("is not waiting for an approval")
        await expect(next_step).to_contain_text("The action is possible once this reason no longer applies.")
        await dialog.get_by_role("button", name="Cancel", exact=True).click()
        assert annotation(await up.store.get(STAGED_RUN, Key(RUN)), REJECTED) == ""
        await page.get_by_role("button", name=f"Resume {RUN}", exact=True).click()
        await confirm.click()
        await expect(dialog.get_by_role("status")).to_have_text(f"{RUN} resumed")


async def test_a_missing_right_leads_to_the_rights_of_actions(tmp_path, tabs):
    """The server of this module may do everything, so the API server's refusal is that of a route."""
    detail = '"ann" may not patch clusterstagedupdateruns'
    body = {"type": "urn:harbormaster:problem:forbidden", "title": "Forbidden", "status": 403, "detail": detail}
    async with (
        waiting_hub(tmp_path / "data") as up,
        opened(tabs, f"{up.https_url}/#csur/{RUN}", token_of(up)) as page,
    ):
        await page.route(
            "**/v1/actions",
            lambda route: route.fulfill(status=403, content_type="application/problem+json", json=body),
        )
        await page.get_by_role("button", name=f"Approve {RUN}", exact=True).click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("status")).to_have_text(f"403 Forbidden: {detail}")
        await expect(dialog.locator(".action-next")).to_have_text(
            "Nothing was changed. Ask an administrator of the hub for this right: Rights of actions."
        )
        for width, scheme in VIEWS:
            await show(page, width, scheme)
            assert await dialog.evaluate("(box) => box.scrollWidth <= box.clientWidth"), (width, scheme)
        await page.evaluate(script().read_text(encoding="utf-8"))
        assert await page.evaluate(FINDINGS) == []


async def test_a_page_that_asks_nobody_asks_for_the_token_before_it_acts(tmp_path, tabs):
    facts = PageFacts("harbormaster", " --data /srv/hub", simulated=True)
    async with waiting_hub(tmp_path / "data", facts) as up, opened(tabs, f"{up.http_url}/#cluster/bergen") as page:
        dialog = page.get_by_role("dialog")
        await page.get_by_role("button", name="Cordon bergen", exact=True).click()
        await expect(dialog.get_by_role("status")).to_have_text("Actions need the token of this hub.")
        field = dialog.get_by_label("Token of this hub: the content of /srv/hub/token", exact=True)
        await expect(field).to_be_focused()
        await field.fill("wrong")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("status")).to_have_text("The token is not accepted.")
        await field.fill(token_of(up))
        await page.keyboard.press("Enter")
        effect = dialog.get_by_role("list", name="Effect")
        await expect(effect).to_contain_text("bergen gets no new placements.")
        await expect(effect).to_contain_text("To evict them: harbormaster drain bergen --data /srv/hub")
        await expect(dialog.get_by_role("list", name="Warnings")).to_contain_text("does not evict existing placements")
        confirm = dialog.get_by_role("button", name="Confirm", exact=True)
        background = "(button) => getComputedStyle(button).backgroundColor"
        filled = await confirm.evaluate(background)
        await confirm.hover()
        assert await confirm.evaluate(background) == filled  # its text is as light as the fill of other buttons
        await confirm.click()
        await expect(dialog.get_by_role("status")).to_have_text("bergen cordoned")
        await dialog.get_by_role("button", name="Close", exact=True).click()
        await expect(page.locator("#cluster-panel")).to_contain_text("harbormaster uncordon bergen")
        await page.get_by_role("button", name="Uncordon bergen", exact=True).click()
        await expect(dialog.get_by_role("list", name="Effect")).to_contain_text("bergen may get placements again.")
        await dialog.get_by_role("button", name="Confirm", exact=True).click()
        await expect(dialog.get_by_role("status")).to_have_text("bergen uncordoned")
        await dialog.get_by_role("button", name="Close", exact=True).click()
        await page.goto(f"{up.http_url}/#timeline?type=action&name=bergen")
        entries = page.locator("#history-body .log > li")
        await expect(entries.locator(".pill")).to_have_text(["uncordoned", "cordoned"])
        await expect(entries.locator(".detail")).to_have_text(["MemberCluster by harbormaster:up"] * 2)


async def test_on_a_placement_its_removals_are_confirmed_and_a_rollback_that_is_impossible_is_explained(tmp_path, tabs):
    async with (
        waiting_hub(tmp_path / "data") as up,
        opened(tabs, f"{up.https_url}/#placement/crp/ledger", token_of(up)) as page,
    ):
        dialog, status = page.get_by_role("dialog"), page.get_by_role("dialog").get_by_role("status")
        await expect(page.locator("#placement-panel .own-runs")).to_have_text(f"Update runs: {RUN} waiting")
        refusal = page.locator("#placement-panel").get_by_text(NO_ROLLBACK, exact=True)
        await expect(refusal).to_be_hidden()
        await approve(up, RUN)
        await expect(refusal).to_be_visible()
        await expect(page.get_by_role("button", name=ROLL_BACK)).to_have_count(0)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await up.store.create(KINDS["", "Namespace"], namespace)
        await up.store.create(PLACEMENT, make_placement("payments", pick_n(2)))
        assert await up.settled(PATIENCE / 1000)
        await up.store.delete(KINDS["", "Namespace"], Key("shop"))
        await page.goto(f"{up.https_url}/#placement/crp/payments")
        await page.get_by_role("link", name="Graph", exact=True).click()
        await expect(page.locator("#placement-panel .graph")).to_be_visible()
        await page.get_by_role("button", name="Confirm the removal", exact=True).click()
        await expect(dialog.get_by_role("heading", level=2)).to_have_text("Confirm removal of payments")
        await expect(dialog.get_by_role("list", name="Effect")).to_contain_text("Removes Namespace shop")
        await expect(dialog.locator(".command")).to_contain_text("harbormaster confirm crp/payments --digest ")
        await page.evaluate(script().read_text(encoding="utf-8"))
        assert await page.evaluate(FINDINGS) == []
        await dialog.get_by_role("button", name="Confirm", exact=True).click()
        await expect(status).to_contain_text("crp/payments confirmed until ")
        assert annotation(await up.store.get(PLACEMENT, Key("payments")), CONFIRM_REMOVAL)


async def approve(up: Up, run: str) -> None:
    """Approve the first stage of *run* once the run waits for it, and wait until the run has finished."""
    assert await up.settled(PATIENCE / 1000)
    request = await up.store.get(APPROVAL_REQUEST, Key(f"{run}-after-first"))
    conditions = approved_conditions(request, "by the test", NOW)
    await up.store.replace_status(APPROVAL_REQUEST, {**request, "status": {"conditions": conditions}})
    assert await up.settled(PATIENCE / 1000)


async def release(up: Up, run: str) -> None:
    """Change the content of the placement, and start *run* with it, which waits for its approval."""
    await edit(up.store, KINDS["", "Namespace"], Key("ledger"), partial(with_metadata, labels={"release": run}))
    assert await up.settled(PATIENCE / 1000)
    first = await up.store.get(STAGED_RUN, Key(RUN))
    await until(lambda: format_time(utc_now()) > first["metadata"]["creationTimestamp"])  # or none is the newest
    spec = {name: first["spec"][name] for name in ("placementName", "stagedRolloutStrategyName", "state")}
    head = {"apiVersion": STAGED_RUN.api_version, "kind": STAGED_RUN.kind, "metadata": {"name": run}}
    await up.store.create(STAGED_RUN, {**head, "spec": spec})
    assert await up.settled(PATIENCE / 1000)


async def test_a_run_that_is_rolled_back_links_to_its_rollback_and_is_not_undone_again(tmp_path, tabs):
    second = "ledger-2"
    async with waiting_hub(tmp_path / "data") as up:
        await approve(up, RUN)
        await release(up, second)
        await approve(up, second)
        async with opened(tabs, f"{up.https_url}/#placement/crp/ledger", token_of(up)) as page:
            dialog, sub = page.get_by_role("dialog"), page.locator("#run-sub")
            undo = page.get_by_role("button", name=ROLL_BACK)
            await page.get_by_role("link", name="Graph", exact=True).click()
            await expect(undo).to_be_visible()
            for words in ("roll back", "rollback", "undo"):
                await page.keyboard.press("Control+k")
                await page.keyboard.type(words)
                await expect(page.locator(".search-found [aria-selected=true]")).to_have_text(
                    f"action Roll back csur/{second} to snapshot 0"
                )
                await page.keyboard.press("Enter")
                await expect(page.locator("#run-title")).to_have_text(second)
            await page.goto(f"{up.https_url}/#runs/csur/{RUN}")
            await expect(page.locator("#run")).to_contain_text(
                f"Rollback unavailable: run {RUN} is not the newest: the placement was changed since then by {second}"
            )
            await expect(undo).to_have_count(0)
            await page.goto(f"{up.https_url}/#runs/csur/{second}")
            await undo.click()
            await expect(dialog.get_by_role("heading", level=2)).to_have_text(f"Roll back {second}")
            await expect(dialog.locator(".command")).to_have_text(f"harbormaster undo {second}")
            await dialog.get_by_role("button", name="Confirm", exact=True).click()
            await expect(dialog.get_by_role("status")).to_contain_text(f"run {second}-undo created")
            await dialog.get_by_role("button", name="Close", exact=True).click()
            await expect(sub).to_contain_text(f"being rolled back by {second}-undo")
            await expect(undo).to_have_count(0)
            await approve(up, f"{second}-undo")
            await expect(sub).to_contain_text(f" by twice · rolled back by {second}-undo")
            await sub.get_by_role("link", name=f"{second}-undo", exact=True).click()
            await expect(page.locator("#run-title")).to_have_text(f"{second}-undo")
            await expect(sub).to_contain_text(f"rolls back {second}")
            await sub.get_by_role("link", name=second, exact=True).click()
            await expect(page.locator("#run-title")).to_have_text(second)
            await expect(undo).to_have_count(0)


async def test_an_approval_shows_what_changes_on_the_clusters_of_the_next_stage(tmp_path, tabs):
    """Of the release of the run, not of a later one, and no values of Secrets."""
    password, later = "c2VjcmV0LW9mLXRoZS1sZWRnZXI=", "not-part-of-this-run"
    rates = {f"rate-{number:03}": str(number) for number in range(100)}
    async with waiting_hub(tmp_path / "data") as up:
        await approve(up, RUN)
        for kind, data in (("Secret", {"password": password}), ("ConfigMap", rates)):
            head = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "rates", "namespace": "ledger"}}
            await up.store.create(KINDS["", kind], {**head, "data": data})
        await release(up, "ledger-2")
        await edit(up.store, KINDS["", "Namespace"], Key("ledger"), partial(with_metadata, labels={"later": later}))
        assert await up.settled(PATIENCE / 1000)
        async with opened(tabs, f"{up.https_url}/#runs/csur/ledger-2", token_of(up)) as page:
            dialog = page.get_by_role("dialog")
            changes = dialog.get_by_role("region", name="Changes", exact=True)
            await page.get_by_role("button", name="Approve ledger-2", exact=True).click()
            await expect(changes.get_by_role("heading")).to_have_text("Changes on 1 cluster")
            await expect(changes.locator(".release > li > p").first).to_have_text("The only cluster: bergen")
            await expect(changes.locator("summary", has_text="Namespace ledger")).to_contain_text("changed")
            secret = changes.locator("summary", has_text="Secret ledger/rates")
            await expect(secret).to_contain_text("added")
            await expect(changes.locator(".diff").first).to_be_hidden()
            await secret.click()
            await changes.locator("summary", has_text="ConfigMap ledger/rates").click()
            difference = changes.get_by_role("region", name="Difference of ConfigMap ledger/rates on bergen")
            await expect(difference).to_be_visible()
            await expect(changes.get_by_role("button", name=re.compile(r"^Show \d+ more lines$"))).to_have_count(1)
            shown = await changes.text_content() or ""
            assert "release: ledger-2" in shown
            assert password not in shown
            assert later not in shown
            await page.evaluate(script().read_text(encoding="utf-8"))
            for width, scheme in (*VIEWS, (390, "dark")):
                await show(page, width, scheme)
                assert await page.evaluate(FINDINGS) == []
                assert await page.evaluate(FINDINGS, COLOURS) == []
                assert await dialog.evaluate("(box) => box.scrollWidth <= box.clientWidth"), (width, scheme)
            await show(page)
            await dialog.get_by_role("button", name="Confirm", exact=True).click()
            await expect(dialog.get_by_role("status")).to_have_text(
                "ledger-2-after-first approved: run ledger-2 continues"
            )


async def test_the_changes_are_those_of_the_latest_preview(tmp_path, tabs):
    """While an effect is checked, and if that fails, none are shown. A late answer to an earlier preview is ignored."""
    async with (
        waiting_hub(tmp_path / "data") as up,
        opened(tabs, f"{up.https_url}/#csur/{RUN}", token_of(up)) as page,
    ):
        dialog = page.get_by_role("dialog")
        changes = dialog.get_by_role("region", name="Changes", exact=True)
        again = dialog.get_by_role("button", name="Check again", exact=True)
        held: list[Route] = []
        await page.route("**/v1/render", lambda route: route.continue_() if held else held.append(route))
        await page.get_by_role("button", name=f"Approve {RUN}", exact=True).click()
        await expect(changes).to_contain_text("Comparing the content…")
        await until(lambda: held)
        await page.route("**/v1/actions", lambda route: route.fulfill(status=503))
        await dialog.get_by_role("button", name="Confirm", exact=True).click()
        await again.click()
        await expect(dialog.locator(".action-next")).to_have_text("Nothing was changed. Check again later.")
        await expect(changes).to_be_hidden()
        await page.unroute("**/v1/actions")
        await again.click()
        await expect(changes).to_contain_text("The only cluster: bergen")
        async with page.expect_event("requestfinished", lambda request: request == held[0].request):
            await held[0].fulfill(json=rendered("ledger", [], message="an earlier release"))
        await page.evaluate("new Promise((resolve) => setTimeout(resolve))")
        await expect(changes).not_to_contain_text("an earlier release")
