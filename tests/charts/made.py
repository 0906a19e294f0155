"""Which files of the charts are made from the code, and by what."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.charts import dashboards, definitions, registration, roles
from tests.charts.readme import readme_page
from tests.charts.schema import schema_page
from tests.charts.settings import AGENT_PROGRAMS, BEGIN, HUB_PROGRAMS, partial, section, settings_of
from tests.charts.values import read_values

CHARTS: Final = Path(__file__).parents[2] / "charts"
HUB, AGENT = CHARTS / "harbormaster", CHARTS / "harbormaster-agent"


def made_files() -> Iterator[tuple[Path, str]]:
    """Yield each file with the text that it should have."""
    for chart, programs in ((HUB, HUB_PROGRAMS), (AGENT, AGENT_PROGRAMS)):
        yield chart / "templates/_settings.tpl", partial(programs)
        yield chart / "values.yaml", values_page(chart, programs)
    yield HUB / "templates/validatingwebhook.yaml", registration.configuration(0)
    yield HUB / "templates/mutatingwebhook.yaml", registration.configuration(1)
    yield HUB / "templates/rbac-serve.yaml", roles.serve_page()
    yield HUB / "templates/rbac-reconcile.yaml", roles.reconcile_page()
    yield HUB / "templates/_selectable.tpl", roles.selectable_page()
    yield AGENT / "templates/rbac.yaml", roles.agent_page()
    yield AGENT / "templates/_applicable.tpl", roles.applicable_page()
    for name, text in definitions.hub_definitions():
        yield HUB / "templates/crds" / name, text
    for name, text in definitions.member_definitions():
        yield AGENT / "templates/crds" / name, text
    for name in dashboards.DASHBOARDS:
        yield HUB / f"files/dashboards/{name}.json", dashboards.dashboard_page(name) + "\n"
    yield from documents()


def documents() -> Iterator[tuple[Path, str]]:
    """Yield what is made from ``values.yaml``, which has to be up to date itself."""
    for chart, programs in ((HUB, HUB_PROGRAMS), (AGENT, AGENT_PROGRAMS)):
        values = read_values(chart / "values.yaml")
        yield chart / "values.schema.json", schema_page(chart.name, values, settings_of(programs))
        yield chart / "README.md", readme_page(chart, values)


def values_page(chart: Path, programs: tuple[str, ...]) -> str:
    """Return ``values.yaml`` with the settings of today below what is written by hand."""
    written, _, _ = (chart / "values.yaml").read_text(encoding="utf-8").partition(BEGIN)
    return written + section(programs)


def folders() -> tuple[Path, ...]:
    """Return the folders that hold nothing but what is made."""
    return HUB / "templates/crds", AGENT / "templates/crds", HUB / "files/dashboards"
