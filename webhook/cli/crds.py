"""``harbormaster crds``: the CustomResourceDefinitions of our kinds, made from the models."""

import click

from webhook.cli.options import output_option
from webhook.cli.output import print_document

HELP = """Print the CustomResourceDefinitions of all kinds.

\b
Examples:
  harbormaster crds | kubectl apply --server-side -f -
  harbormaster crds -o json

\b
Exit codes:
  0  printed
  1  an error
"""


@click.command("crds", help=HELP, short_help="Print the CustomResourceDefinitions of all kinds.")
@output_option("yaml", "json")
def command(output: str) -> int:
    """Print the definitions: YAML documents, or one JSON list."""
    from scorer.api.crd import custom_resource_definitions

    definitions = custom_resource_definitions()
    if output == "json":
        print_document({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": definitions}, "json")
        return 0
    from webhook.cli.yaml_text import format_yaml

    click.echo("---\n".join(format_yaml(definition) for definition in definitions), nl=False)
    return 0
