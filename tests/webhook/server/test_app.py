"""Which sets of handlers an application is made from."""

import pytest

from tests.webhook.services import make_services
from webhook.server.app import AppDependencies, add_disruption, make_answering_api, make_app, make_probe_app
from webhook.settings.programs import ServerSettings


def routes(app):
    return {resource.canonical for resource in app.router.resources()}


@pytest.fixture
def services():
    return make_services()


def test_who_answers_one_command_has_no_hooks_no_extender_and_no_page(services):
    api = make_answering_api(services.answers, ServerSettings())
    found = routes(api.app)
    assert {path.split("/")[1] for path in found} == {"v1"}
    assert {"/v1/explain", "/v1/plan", "/v1/placements/crp/{name}/runs"} <= found
    assert not [path for path in found if path.startswith(("/v1/gate", "/v1/budgets", "/v1/events"))]


def test_node_pools_and_gates_come_together(services):
    api = make_answering_api(services.answers, ServerSettings())
    before = routes(api.app)
    add_disruption(api, services.disruption, services.history)
    added = routes(api.app) - before
    assert {path.split("/")[2] for path in added} == {"gate", "budgets"}
    assert added < routes(make_app(AppDependencies(services)))


@pytest.mark.parametrize("page", [True, False])
def test_the_plain_application_has_the_page_where_the_settings_say_so(services, page):
    found = routes(make_probe_app(AppDependencies(services, ServerSettings(page_on_http=page))))
    assert {"/readyz", "/metrics"} <= found
    assert ({"/", "/v1/clusters", "/v1/budgets", "/v1/explain"} <= found) is page
    assert not [path for path in found if path.startswith(("/validate", "/extender", "/v1/score", "/v1/gate"))]
