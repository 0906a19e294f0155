"""A client of ``harbormaster mcp``: the SDK's own, or bare lines of JSON."""

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.waiting import PATIENCE_SECONDS
from tests.webhook.cli.terminal import SCRIPTS


@asynccontextmanager
async def connected(folder, *options, cwd=None, log=sys.__stderr__):
    """Start the server for *folder*, and yield the SDK's client of it."""
    parameters = StdioServerParameters(
        command=str(SCRIPTS / "harbormaster"),
        args=["mcp", "--folder", str(folder), *map(str, options)],
        env=dict(os.environ),
        cwd=cwd,
    )
    async with Client(stdio_client(parameters, log)) as client:
        yield client


async def ask(client, tool, **arguments):
    """Call a tool. Return its answer, and check that it is text that a terminal can show."""
    result = await client.call_tool(tool, arguments)
    text = text_of(result)
    assert not result.is_error, text
    assert text.isprintable()
    return json.loads(text)


async def refusal(client, tool, **arguments):
    """Call a tool. Return the lines of its error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result).splitlines()


def text_of(result):
    """Return the text of an answer, which is all that it has."""
    (content,) = result.content
    assert result.structured_content is None
    return content.text


@contextmanager
def bare_server(folder, *options):
    """Start the server, and yield its process for lines of JSON."""
    command = [str(SCRIPTS / "harbormaster"), "mcp", "--folder", str(folder), *map(str, options)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes, text=True, bufsize=1) as process:
        try:
            yield process
        finally:
            process.kill()


def send(process, **message):
    """Send one message."""
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def initialize(process):
    """Do the handshake of clients before 2026."""
    client = {"name": "tests", "version": "1"}
    parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    send(process, id=0, method="initialize", params=parameters)
    answer = json.loads(process.stdout.readline())
    assert answer["result"]["serverInfo"]["name"] == "harbormaster"
    send(process, method="notifications/initialized")


def ended(process):
    """Wait for the end. Return the exit code and standard error."""
    code = process.wait(PATIENCE_SECONDS)
    return code, process.stderr.read()
