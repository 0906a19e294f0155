"""Which sets of handlers an application is made from."""

import pytest

from tests.webhook.services import make_services
from webhook.server.app import AppDependencies, make_probe_app
from webhook.settings.programs import ServerSettings


def routes(app):
    return {resource.canonical for resource in app.router.resources()}


@pytest.fixture
def services():
    return make_services()


@pytest.mark.parametrize("page", [True, False])
def test_the_plain_application_has_the_page_where_the_settings_say_so(services, page):
    found = routes(make_probe_app(AppDependencies(services, ServerSettings(page_on_http=page))))
    assert {"/readyz", "/metrics"} <= found
    assert ({"/", "/v1/clusters", "/v1/budgets", "/v1/explain"} <= found) is page
    assert not [path for path in found if path.startswith(("/validate", "/extender", "/v1/score", "/v1/gate"))]
