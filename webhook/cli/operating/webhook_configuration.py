"""``harbormaster webhook-configuration``: webhook configurations for an API server, generated from the registry."""

import os
from pathlib import Path

import click

from scorer.api.values.name_grammar import dns_label_error, dns_subdomain_error
from webhook.cli.errors import UserError
from webhook.cli.options.base import output_option
from webhook.cli.text.output import print_document
from webhook.kube.transport.addresses import check_address
from webhook.runtime.files import read_bounded

HELP = """Print the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration.

Every kind has entries of its own. Guard rails are included if their settings are on, as for `serve`, such as
HARBORMASTER_GUARD_RAIL=true. With HARBORMASTER_WEBHOOK_SECRET_FILE, as for `serve`, the output contains the secret
path: keep it secret.

\b
Examples:
  harbormaster webhook-configuration --ca ca.crt | kubectl --context hub apply -f -
  harbormaster webhook-configuration --url https://10.0.0.7:9443 --ca ca.crt
  HARBORMASTER_BLOCK_WORKLOADS=true harbormaster webhook-configuration --ca ca.crt -o json

\b
Exit codes:
  0  printed
  1  an error
"""


@click.command("webhook-configuration", help=HELP, short_help="Print the webhook configurations.")
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    help="Namespace where harbormaster is installed.  [env: HARBORMASTER_NAMESPACE]  [default: harbormaster-system]",
)
@click.option(
    "--service", default="harbormaster", show_default=True, metavar="NAME", help="Name of the Service of `serve`."
)
@click.option("--port", default=443, show_default=True, type=click.IntRange(1, 65535), help="Port of the Service.")
@click.option("--url", default="", metavar="URL", help="Server to call instead of a Service, as https://HOST:PORT.")
@click.option(
    "--ca",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Authority for the API server to trust, in PEM. Required without --no-ca.",
)
@click.option(
    "--no-ca",
    is_flag=True,
    help="Omit the authority: the API server's machine already trusts the certificate, or another tool adds it.",
)
@output_option("yaml", "json")
def command(
    namespace: str | None, service: str, port: int, url: str, ca: Path | None, output: str, *, no_ca: bool
) -> int:
    """Print both configurations: YAML documents, or one JSON list. Raises `click.UsageError` or `UserError`."""
    if (ca is None) is not no_ca:
        raise click.UsageError(
            "give the authority that signed the server certificate as --ca FILE, or use --no-ca. If the API server "
            "does not trust the certificate, it refuses every write that the webhooks review"
            if ca is None
            else "--ca and --no-ca cannot be used together"
        )
    from webhook.admission.registration import WebhookEndpoint, webhook_configurations
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import RegistrationSettings
    from webhook.settings.secret_files import read_secrets, secret_path

    try:
        settings = RegistrationSettings.read(os.environ, namespace=namespace)
        secrets = read_secrets(settings.webhook_secret_file)
    except SettingsError as error:
        raise UserError(str(error)) from error
    if url:
        _check_url(url)
    elif secrets and dns_subdomain_error(secrets[0]):  # API servers do not validate the URL for that
        raise UserError(
            "HARBORMASTER_WEBHOOK_SECRET_FILE: the first secret must consist of lowercase letters, digits and -, and "
            "start and end with a letter or digit, when the hub calls a Service. Generate one with openssl rand -hex "
            "32, "
            "or use --url"
        )
    if mistake := dns_label_error(service):
        raise UserError(f"--service {service[:64]!a}: {mistake}")
    trust = _trust(ca) if ca else b""
    endpoint = WebhookEndpoint(
        settings.namespace, service, port, url, trust, settings.username_of_loop, secret_path(secrets)
    )
    objects = webhook_configurations(endpoint, settings.admission())
    if output == "json":
        print_document({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}, "json")
        return 0
    from webhook.runtime.yaml import format_yaml

    click.echo("---\n".join(format_yaml(document) for document in objects), nl=False)
    return 0


def _check_url(url: str) -> None:
    """Raise `UserError` for a URL that no API server can call. The paths of the hooks are appended to it."""
    if not url.isascii():
        raise UserError(f"--url {url!a}: the host name must be in ASCII, as xn--…")
    expected = "must be https://HOST:PORT, without user, path, query or fragment"
    try:
        host = check_address(url, expected, schemes=("https",)).hostname or ""
    except ValueError as error:
        raise UserError(f"--url {url!r}: {error}") from error
    if ":" not in host and not all(label and not dns_label_error(label) for label in host.split(".")):
        raise UserError(f"--url {url!r}: {expected}")  # nothing else resolves in a cluster


def _trust(path: Path) -> bytes:
    """Return the content of a file with certificates in PEM.

    Raises:
        OSError: The file cannot be read, or is too large.
        UserError: The file has no certificates, or a private key, which must not end up in a configuration.
    """
    from cryptography import x509

    content = read_bounded(path)
    if b"PRIVATE KEY" in content:
        raise UserError(f"--ca {path}: must not contain a private key: give only the certificate")
    try:
        x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise UserError(f"--ca {path}: must contain a certificate in PEM") from error
    return content
