"""The command line: takes questions to the engine or to a running server, and prints answers for users and programs.

One module per command, imported when the command is called, so that ``--help`` is quick and ``up`` stays small.
"""

import os
from collections.abc import Sequence


def complete() -> None:
    """Print what can follow the words that kubectl hands to ``kubectl_complete-harbormaster``, and exit."""
    _prepare()
    from webhook.cli.process import ending_quickly

    with ending_quickly():
        from webhook.cli.completion import print_for_kubectl

        print_for_kubectl()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit. *arguments* default to those of the process, which the call then ends."""
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
