from __future__ import annotations

import socket

from envsnap.host import LiveHost
from envsnap.reading import Unavailable
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
FOUR = (
    "   0: 00000000:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1061 1 0 100 0 0 10 0\n"
    "   1: 0100007F:8AE3 0100007F:7530 01 00000000:00000000 00:00000000 00000000     0        0 1062 1 0 100 0 0 10 0\n"
)
SIX = (
    "   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0\n"
    "   1: 00000000000000000000000000000000:7530 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0\n"
)


def test_only_sockets_that_listen_count_and_a_port_of_both_families_once() -> None:
    host = FakeHost({"/proc/net/tcp": HEAD + FOUR, "/proc/net/tcp6": HEAD + SIX})
    assert section("ports", host).values == {"ports.listening": [22, 30000]}


def test_a_kernel_with_one_family_alone() -> None:
    assert section("ports", FakeHost({"/proc/net/tcp": HEAD + FOUR})).values == {"ports.listening": [30000]}
    assert section("ports", FakeHost({"/proc/net/tcp6": HEAD + SIX})).values == {"ports.listening": [22, 30000]}


def test_no_table_is_not_a_machine_without_listeners() -> None:
    assert isinstance(on_the_empty_machine("ports").reading("ports.listening"), Unavailable)


def test_a_real_socket_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server.getsockname()[1] in section("ports", LiveHost()).values["ports.listening"]
