"""`serve` and `webhook-configuration`: what they print, and what they refuse to begin with."""

import json
import socket
from datetime import UTC, datetime

import pytest
import yaml

from certs.authority import Authority
from tests.webhook.cli.terminal import program
from webhook.processes.workers import processors


@pytest.fixture
def files(tmp_path):
    """A certificate, its key and its authority, as the flags of ``serve``."""
    authority = Authority.new(datetime.now(UTC))
    leaf = authority.issue(("localhost",), ("127.0.0.1",), datetime.now(UTC))
    for name, content in (("tls.crt", leaf.chain_pem), ("tls.key", leaf.key_pem), ("ca.crt", authority.pem)):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_both_objects_are_printed_and_nothing_of_them_is_a_wildcard(cli):
    done = cli("webhook-configuration", "--no-ca")
    assert done.exit_code == 0
    documents = list(yaml.safe_load_all(done.stdout))
    kinds = [document["kind"] for document in documents]
    assert kinds == ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
    assert "'*'" not in done.stdout
    assert json.loads(cli("webhook-configuration", "--no-ca", "-o", "json").stdout)["items"] == documents


def test_a_configuration_that_would_have_every_write_refused_is_not_printed(cli):
    """Without an authority the API server takes its machine's word, which knows nothing of a private one."""
    done = cli("webhook-configuration")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: give the authority that signed the server certificate as --ca FILE,")
    both = cli("webhook-configuration", "--ca", "ca.crt", "--no-ca")
    assert (both.exit_code, both.stdout) == (1, "")


def test_settings_of_the_guard_rails_make_entries(cli, monkeypatch):
    assert "pods.guard" not in cli("webhook-configuration", "--no-ca").stdout
    monkeypatch.setenv("HARBORMASTER_BLOCK_WORKLOADS", "true")
    assert "pods.guard.validate.harbormaster.dev" in cli("webhook-configuration", "--no-ca").stdout


def test_the_authority_stands_in_every_entry(cli, files):
    done = cli("webhook-configuration", "--url", "https://10.0.0.7:9443", "--ca", str(files / "ca.crt"))
    for document in yaml.safe_load_all(done.stdout):
        for hook in document["webhooks"]:
            assert hook["clientConfig"]["caBundle"]
            assert hook["clientConfig"]["url"].startswith("https://10.0.0.7:9443/")


def test_the_secret_path_stands_in_every_entry_and_the_first_secret_counts(cli, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text(f"{'n' * 32}\n{'o' * 32}\n", encoding="ascii")
    monkeypatch.setenv("HARBORMASTER_WEBHOOK_SECRET_FILE", str(tmp_path / "secret"))
    for words in ((), ("--url", "https://10.0.0.7:9443")):
        for document in yaml.safe_load_all(cli("webhook-configuration", "--no-ca", *words).stdout):
            for hook in document["webhooks"]:
                where = hook["clientConfig"]
                path = where["url"] if words else where["service"]["path"]
                assert f"/hooks/{'n' * 32}/{hook['name'].split('.')[-3]}/" in f"{path}/"
                assert "o" * 32 not in path


@pytest.mark.parametrize("secret", ["N" * 32, "n_" * 16, f"-{'n' * 32}"])
def test_a_secret_that_no_path_of_a_service_can_have_is_refused_unless_there_is_a_url(
    cli, tmp_path, monkeypatch, secret
):
    (tmp_path / "secret").write_text(secret, encoding="ascii")
    monkeypatch.setenv("HARBORMASTER_WEBHOOK_SECRET_FILE", str(tmp_path / "secret"))
    done = cli("webhook-configuration", "--no-ca")
    assert done.exit_code == 1
    assert "the first secret must consist of lowercase letters" in done.stderr
    assert secret not in done.stderr
    assert cli("webhook-configuration", "--no-ca", "--url", "https://10.0.0.7:9443").exit_code == 0


def test_a_file_without_a_secret_is_named(cli, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("too short", encoding="ascii")
    monkeypatch.setenv("HARBORMASTER_WEBHOOK_SECRET_FILE", str(tmp_path / "secret"))
    done = cli("webhook-configuration", "--no-ca")
    assert done.exit_code == 1
    assert "HARBORMASTER_WEBHOOK_SECRET_FILE" in done.stderr
    assert "too short" not in done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["--url", "http://a"], "--url 'http://a': must be https://HOST:PORT", id="no-tls"),
        pytest.param(["--url", "https://me@a"], "--url 'https://me@a': must be https://HOST:PORT", id="user-in-url"),
        *(
            pytest.param(["--url", url], f"--url '{url}': {mistake}", id=url)
            for url, mistake in (
                ("https://", "must be https://HOST:PORT"),
                ("https://:443", "must be https://HOST:PORT"),
                ("https://a:99999", "Port out of range"),
                ("https://a:0", "must be https://HOST:PORT"),
                ("https://[::1", "Invalid IPv6 URL"),
                ("https://a b", "must be https://HOST:PORT"),
                ("https://a/b", "must be https://HOST:PORT"),
                ("https://a..b", "must be https://HOST:PORT"),
            )
        ),
        pytest.param(["--url", "https://h\udcff"], "--url 'https://h\\udcff': the host name", id="bytes-in-url"),
        pytest.param(["--service", "\udcff"], "--service '\\udcff': ", id="bytes-in-service"),
        pytest.param(["--service", "A b"], "--service 'A b': ", id="service"),
        pytest.param(["--port", "0"], "Invalid value for '--port'", id="port"),
        pytest.param(["--namespace", "A b"], "namespace: 'A b'", id="namespace"),
        pytest.param(["--ca", "tls.key"], "tls.key: must not contain a private key", id="key-for-authority"),
        pytest.param(["--ca", "nothing.crt"], "nothing.crt: No such file or directory", id="no-file"),
        pytest.param(["--ca", "/dev/zero"], "/dev/zero: larger than 1048576 bytes", id="file-without-end"),
        pytest.param(["--ca", "text.crt"], "text.crt: must contain a certificate in PEM", id="no-certificate"),
    ],
)
def test_wrong_words_are_named(cli, files, monkeypatch, words, complaint):
    monkeypatch.chdir(files)
    (files / "text.crt").write_text("hello", encoding="utf-8")
    trusted = () if "--ca" in words else ("--no-ca",)
    done = cli("webhook-configuration", *words, *trusted)
    assert (done.exit_code, done.stdout) == (1, "")
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param([], "serve requires a certificate: set --tls-cert and --tls-key", id="no-certificate"),
        pytest.param(["--tls-cert", "tls.crt"], "tls_cert and tls_key: must be set together", id="no-key"),
        pytest.param(
            ["--tls-cert", "tls.crt", "--tls-key", "tls.key", "--kubeconfig", "none"],
            "kubeconfig none: no such file or directory",
            id="no-kubeconfig",
        ),
        pytest.param(["--tls-cert", "tls.crt", "--tls-key", "tls.key"], "--kubeconfig is given", id="no-pod"),
    ],
)
def test_serve_says_what_it_lacks(cli, files, monkeypatch, words, complaint):
    monkeypatch.chdir(files)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    done = cli("serve", *words)
    assert done.exit_code == 1
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", ["0", "-1", "two", "1.5"])
def test_a_number_of_workers_that_is_none_is_refused(cli, monkeypatch, number):
    done = cli("serve", "--workers", number)
    assert done.exit_code == 1
    assert f"'--workers': '{number}'" in done.stderr or f"'--workers': {number}" in done.stderr
    monkeypatch.setenv("HARBORMASTER_WORKERS", number)
    done = cli("serve")
    assert done.exit_code == 1
    assert f"HARBORMASTER_WORKERS: '{number}'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_more_workers_than_anybody_has_processors_for_are_refused(cli):
    done = cli("serve", "--workers", "1000")
    assert done.exit_code == 1
    assert "workers: '1000': input should be less than or equal to 256" in done.stderr.replace("1000:", "'1000':")


def test_more_workers_than_processors_are_said_and_their_mistake_is_said_once(files):
    """All of them make the same one. A process: it forks."""
    many = processors() + 1
    done = program("serve", "--workers", many, "--https-port=0", "--http-port=0", cwd=files)
    assert done.returncode == 1
    warning, error = done.stderr.splitlines()
    about = json.loads(warning)
    assert (about["level"], about["workers"], about["processors"]) == ("warning", many, processors())
    assert error.startswith("error: serve requires a certificate")


def test_a_port_in_use_is_named_before_there_are_workers(cli, files, monkeypatch):
    monkeypatch.chdir(files)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("serve", "--workers=2", f"--https-port={port}")
    assert done.exit_code == 1
    assert f"error: cannot listen on 127.0.0.1:{port}: the port is in use by another program" in done.stderr
    assert "Choose another with --https-port, or HARBORMASTER_HTTPS_PORT" in done.stderr
