"""``harbormaster settings``: what is in force, and where it comes from."""

import json

import pytest
import yaml

from webhook.settings.programs import PROGRAMS
from webhook.settings.reference import schema_of


@pytest.fixture(autouse=True)
def nothing_is_set(cli, monkeypatch):
    for program in PROGRAMS.values():
        for name in program.names():
            monkeypatch.delenv(program.variable(name), raising=False)


def items(done) -> dict[str, dict]:
    """What is told of each setting, by its variable."""
    assert done.exit_code == 0, done.stderr
    return {item["variable"]: item for item in json.loads(done.stdout)["settings"]}


def cells(done) -> dict[str, list[str]]:
    """The cells of the table, by variable."""
    assert done.exit_code == 0, done.stderr
    rows = (line.split() for line in done.stdout.splitlines()[3:])
    return {name: cells for name, *cells in rows}


def test_the_table_tells_value_and_source(cli, monkeypatch):
    monkeypatch.setenv("HARBORMASTER_HTTPS_PORT", "0443")
    found = cells(cli("settings"))
    assert found["HARBORMASTER_HTTPS_PORT"] == ["environment", "443"]
    assert found["HARBORMASTER_HTTP_PORT"] == ["default", "8081"]
    assert found["HARBORMASTER_IP_ADDRESSES"] == ["default", "127.0.0.1,", "::1"]
    assert found["HARBORMASTER_TLS_KEY"] == ["default"]


@pytest.mark.parametrize(
    ("words", "whose"),
    [
        ((), "harbormaster serve"),
        (("serve",), "harbormaster serve"),
        (("up",), "harbormaster up"),
        (("cli",), "the commands that use a hub"),
    ],
)
def test_the_table_says_first_whose_settings_these_are(cli, words, whose):
    told, blank, headers, *_ = cli("settings", *words).stdout.splitlines()
    assert (told, blank, headers.split()) == (f"Settings of {whose}:", "", ["VARIABLE", "FROM", "VALUE"])


def test_a_program_that_there_is_not_is_a_mistake(cli):
    done = cli("settings", "captain")
    assert done.exit_code != 0
    assert "'captain'" in done.stderr
    assert all(program in done.stderr for program in PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_tells_what_it_reads(cli, program):
    done = cli("settings", program, "-o", "json")
    found = items(done)
    assert {item["name"] for item in found.values()} == set(PROGRAMS[program].names())
    assert {item["source"] for item in found.values()} == {"default"}
    assert all(item["value"] == item["default"] and item["description"] for item in found.values())
    assert json.loads(done.stdout)["schema"] == schema_of(program)


def test_a_program_is_told_by_its_own_defaults(cli):
    found = cells(cli("settings", "up"))
    assert found["HARBORMASTER_PAGE_ON_HTTP"] == ["default", "true"]
    assert found["HARBORMASTER_LOG_FORMAT"] == ["default", "text"]


def test_a_list_in_json_can_be_set_again_as_it_is_told(cli, monkeypatch):
    variable = "HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES"
    term = {"weight": 40, "preference": {"propertySorter": {"name": "cpu", "sortOrder": "Descending"}}}
    monkeypatch.setenv(variable, json.dumps([term]))
    told = items(cli("settings", "-o", "json"))[variable]["value"]
    monkeypatch.setenv(variable, json.dumps(told))
    assert items(cli("settings", "-o", "json"))[variable]["value"] == told
    assert told[0]["preference"]["propertySorter"] == term["preference"]["propertySorter"]


def test_what_is_set_to_the_default_comes_from_the_environment_all_the_same(cli, monkeypatch):
    monkeypatch.setenv("HARBORMASTER_LOG_LEVEL", "info")
    told = items(cli("settings", "-o", "json"))["HARBORMASTER_LOG_LEVEL"]
    assert (told["value"], told["default"], told["source"]) == ("info", "info", "environment")


def test_a_data_folder_that_is_not_named_is_told(cli, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/srv/state")
    monkeypatch.setenv("HARBORMASTER_DATA", "")
    found = cells(cli("settings", "up"))
    assert found["HARBORMASTER_DATA"] == ["default", "/srv/state/harbormaster"]
    assert found["XDG_STATE_HOME"] == ["environment", "/srv/state"]


def test_yaml_holds_the_same_as_json(cli):
    words = ("settings", "rbac", "-o")
    assert yaml.safe_load(cli(*words, "yaml").stdout) == json.loads(cli(*words, "json").stdout)


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
@pytest.mark.parametrize(
    "server",
    [
        "https://ada:pass-word@hub:9443",
        " https://ada:pass-word@hub:9443",
        "ada:pass-word@hub",
        "https://ada:x/pass-word@hub:1",
        "https://hub:1?token=pass-word",
    ],
)
def test_a_password_is_not_printed(cli, monkeypatch, output, server):
    monkeypatch.setenv("HARBORMASTER_SERVER", server)
    done = cli("settings", "cli", "-o", output)
    assert done.exit_code == 0
    assert "set" in done.stdout
    assert "pass-word" not in done.stdout + done.stderr


def test_an_address_without_a_password_is_printed(cli, monkeypatch):
    monkeypatch.setenv("HARBORMASTER_SERVER", "https://hub:9443")
    assert "https://hub:9443" in cli("settings", "cli").stdout


def test_all_wrong_values_are_named_at_once(cli, monkeypatch):
    for name, value in {"HTTPS_PORT": "x", "LOG_LEVEL": "loud", "TLS_CERT": "tls.crt", "BODY_SECONDS": "-1"}.items():
        monkeypatch.setenv(f"HARBORMASTER_{name}", value)
    done = cli("settings")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert sorted(done.stderr.splitlines()) == [
        "error: HARBORMASTER_BODY_SECONDS: '-1': input should be greater than or equal to 0",
        "error: HARBORMASTER_HTTPS_PORT: 'x': input should be a valid integer, unable to parse string as an integer",
        "error: HARBORMASTER_LOG_LEVEL: 'loud': input should be 'debug', 'info', 'warning' or 'error'",
        "error: tls_cert and tls_key: must be set together",
    ]


def test_wrong_values_of_other_programs_do_not_matter(cli, monkeypatch):
    monkeypatch.setenv("HARBORMASTER_HTTPS_PORT", "x")
    assert cli("settings", "agent").exit_code == 0
