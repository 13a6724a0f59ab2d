"""Real HTTP servers on a local port, good and bad."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Answer = tuple[int, str, str] | Callable[[http.server.BaseHTTPRequestHandler], None]
"""Status, content type and body, or whatever a function does with the connection."""


def as_json(value: Any, status: int = 200) -> Answer:
    return status, "application/json", json.dumps(value)


class Server:
    """What was asked, and where."""

    def __init__(self, answers: Mapping[str, Answer], key: str = "") -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, str]] = []
        self.url = ""
        self.key = key


@contextlib.contextmanager
def serving(answers: Mapping[str, Answer], key: str = "") -> Iterator[Server]:
    """Answer GETs by path, 404 for any other; 401 for who lacks the bearer token `key`."""
    state = Server(answers, key)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            authorization = self.headers.get("Authorization", "")
            state.asked.append((self.path, authorization))
            answer = state.answers.get(self.path, (404, "application/json", '{"detail":"Not Found"}'))
            if state.key and authorization != f"Bearer {state.key}":
                answer = (401, "application/json", '{"error":"Unauthorized"}')
            if callable(answer):
                answer(self)
                return
            status, kind, body = answer
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            if status in (301, 302, 307):
                self.send_header("Location", body)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def raw(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A port at which each connection is left to `talk`; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_connections: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_connections.append(connection)
                with contextlib.suppress(OSError):
                    talk(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in open_connections:
            connection.close()
        thread.join(5)


def closed_port() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}"
