from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from envsnap import machine
from envsnap.reading import Json
from tests.http_server import as_json, closed_port, raw, serving


def answer(request: list[Json]) -> list[Json]:
    found: list[Json] = machine.answer(request)  # type: ignore[no-untyped-call]
    return found


def test_an_answer_with_its_status() -> None:
    with serving({"/a?b=1": as_json({"x": "ü"})}) as server:
        assert answer(["http", server.url + "/a?b=1"]) == ["ok", {"status": 200, "body": '{"x": "\\u00fc"}'}]
        assert answer(["http", server.url + "/none"])[1]["status"] == 404


def test_the_key_is_read_from_its_file_and_sent(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("  sk-12345\nand a second line\n")
    with serving({"/": as_json(1)}, key="sk-12345") as server:
        assert answer(["http", server.url, None, 5.0, 1000, str(tmp_path / "key")])[1]["status"] == 200
        assert answer(["http", server.url])[1]["status"] == 401
    assert answer(["http", server.url, None, 5.0, 1000, str(tmp_path / "gone")])[:2] == ["missing", "absent"]


def test_a_redirect_is_not_followed() -> None:
    with serving({"/a": (302, "text/plain", "/b"), "/b": as_json(1)}) as server:
        assert answer(["http", server.url + "/a"])[1]["status"] == 302
        assert [path for path, _ in server.asked] == ["/a"]


def test_an_answer_without_end_is_cut_off() -> None:
    with serving({"/": (200, "text/plain", "x" * 100_000)}) as server:
        assert answer(["http", server.url, None, 5.0, 1000])[:2] == ["missing", "too_large"]


def drip(connection: socket.socket) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 10_000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def silence(connection: socket.socket) -> None:
    connection.recv(1000)


def drip_body(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.05)


@pytest.mark.parametrize("talk", [drip, silence, drip_body])
def test_one_that_never_ends_its_answer_is_left_in_time(talk: object) -> None:
    with raw(talk) as url:  # type: ignore[arg-type]
        started = time.monotonic()
        found = answer(["http", url, None, 0.3])
        # It ends by its own time limit: without one, these would go on for minutes.
        assert time.monotonic() - started < 20
    assert found[:2] == ["missing", "timeout"]
    assert "within 0.3 s" in found[2]


@pytest.mark.parametrize(
    ("said", "why"),
    [(b"SSH-2.0-OpenSSH\r\n", "not_supported"), (b"", "not_supported"), (b"HTTP/9 x\r\n\r\n", "not_supported")],
)
def test_what_is_no_http(said: bytes, why: str) -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(said)
        connection.close()

    with raw(talk) as url:
        assert answer(["http", url])[:2] == ["missing", why]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://127.0.0.1/", "absent"),
        ("http://", "absent"),
        ("http://127.0.0.1:x/", "absent"),
        ("http://127.0.0.1:99999/", "absent"),
        ("http://[::1", "absent"),
        ("http://no-such-host.invalid/", "absent"),
        ("", "absent"),
    ],
)
def test_addresses_that_are_none(url: str, why: str) -> None:
    assert answer(["http", url])[:2] == ["missing", why]


def test_nothing_listens() -> None:
    found = answer(["http", closed_port() + "/x"])
    assert found[:2] == ["missing", "absent"]
    assert found[2].startswith("nothing listens at 127.0.0.1:")


def test_tls_with_one_that_does_not_speak_it() -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"plain text, as it happens\r\n")
        connection.close()

    with raw(talk) as url:
        found = answer(["http", url.replace("http:", "https:")])
    assert found[:2] == ["missing", "not_supported"]
    assert found[2].startswith("TLS with 127.0.0.1:")


def test_a_file_with_what_vouches_for_it_and_no_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = answer(["read_own", str(tmp_path / "a")])
    stat = (tmp_path / "a").stat()
    assert found == ["ok", {"text": "text", "uid": stat.st_uid, "mode": 0o640, "mtime_ns": stat.st_mtime_ns}]
    assert answer(["read_own", str(tmp_path / "link")])[:2] == ["missing", "absent"]
    assert answer(["read_own", str(tmp_path / "a"), 3])[:2] == ["missing", "too_large"]
    assert answer(["read_own", str(tmp_path)])[:2] == ["missing", "not_supported"]
