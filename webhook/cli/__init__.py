"""The command line: queries the engine or a running server, and prints the results for users and programs.

One module per command, imported when the command is called, so that ``--help`` is quick and ``up`` stays small.
"""

import os
from collections.abc import Sequence


def complete() -> None:
    """Print completions for the words that kubectl passes to ``kubectl_complete-harbormaster``, and exit."""
    _prepare()
    from webhook.cli.process import ending_quickly

    with ending_quickly():
        from webhook.cli.completion import print_for_kubectl

        print_for_kubectl()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit the process. *arguments* default to those of the process."""
    _prepare()
    from webhook.cli.process import ending_quickly
    from webhook.cli.root import root

    if arguments is not None:
        root.main(arguments)
    with ending_quickly():
        root.main()


def _prepare() -> None:
    """Set up the process. Ctrl-C before its signal handler is installed would show the traceback of an import."""
    try:
        from webhook.cli.process import prepare

        prepare()
    except KeyboardInterrupt:
        os._exit(130)  # `webhook.cli.process.INTERRUPTED`
