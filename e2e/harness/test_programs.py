"""What the tests start their programs with."""

import socket

import pytest

from e2e.controlplane.cluster import LOOPBACK
from e2e.controlplane.process import free_port


def test_a_free_port_stays_free_until_its_program_listens():
    port = free_port()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((LOOPBACK, port))
    for _ in range(2):  # it may be started again
        with socket.create_server((LOOPBACK, port)):  # sets SO_REUSEADDR
            pass
    assert free_port() != port
