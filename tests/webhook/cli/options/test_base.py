"""Options that a command gets as one value."""

from dataclasses import dataclass

import click
from click.testing import CliRunner

from webhook.cli.options.base import grouped


@dataclass(frozen=True)
class Trip:
    harbour: str
    hours: int | None


@click.command()
@click.option("--first", is_flag=True)
@grouped(
    "trip", Trip, click.argument("harbour"), click.option("--hours", type=int), click.option("--flag", default="none")
)
@click.option("--last", is_flag=True)
def sail(first, trip, flag, last):
    click.echo(repr((first, trip, flag, last)))


def test_they_come_as_one_value_and_others_as_they_are():
    done = CliRunner().invoke(sail, ["dover", "--hours", "3", "--last"])
    assert done.stdout == f"{(False, Trip('dover', 3), 'none', True)!r}\n"
    assert CliRunner().invoke(sail, ["dover"]).stdout == f"{(False, Trip('dover', None), 'none', False)!r}\n"


def test_the_help_lists_them_in_their_order():
    said = CliRunner().invoke(sail, ["--help"]).stdout
    places = [said.index(name) for name in ("HARBOUR", "--first", "--hours", "--flag", "--last")]
    assert places == sorted(places)
