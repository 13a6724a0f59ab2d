"""The output probe against servers that answer well, badly, and differently each time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Missing
from envsnap.runs.output_probe import judged, probe, steady

Reply = Callable[[str, dict[str, Any]], Any]


@contextmanager
def answering(reply: Reply, engine: str) -> Iterator[str]:
    """A server of one engine that answers POSTs by `reply(path, body)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = {"sglang": "/model_info", "vllm": "/v1/models"}[engine]
            self._send(200 if self.path == path else 404, {"data": [{"id": "tiny"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(200, reply(self.path, body))

        def _send(self, status: int, document: Any) -> None:
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sglang(path: str, body: dict[str, Any]) -> Any:
    assert path == "/generate"
    assert body["sampling_params"]["temperature"] == 0
    return {"text": body["text"].upper(), "output_ids": [len(body["text"])]}


def test_sglang_is_asked_twice_and_its_tokens_are_hashed() -> None:
    with answering(sglang, "sglang") as base:
        found = probe(LiveHost(), base, 3)
    assert len(found["outputs"]) == 3
    assert len(set(found["outputs"])) == 3
    assert steady(found)
    assert all(len(h) == 64 for h in found["outputs"])


def test_an_openai_server_is_asked_by_its_model_s_name() -> None:
    def reply(path: str, body: dict[str, Any]) -> Any:
        assert path == "/v1/completions"
        assert body["model"] == "tiny"
        return {"choices": [{"text": body["prompt"][::-1]}]}

    with answering(reply, "vllm") as base:
        assert steady(probe(LiveHost(), base, 2))


def test_answers_that_change_are_not_steady() -> None:
    count = itertools.count()
    with answering(lambda path, body: {"text": "x", "output_ids": [next(count)]}, "sglang") as base:
        assert not steady(probe(LiveHost(), base, 2))


@pytest.mark.parametrize("answer", [{}, [], "text", None, {"text": 5}])
@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_garbage_is_no_output(answer: Any, engine: str) -> None:
    with answering(lambda path, body: answer, engine) as base, pytest.raises(Missing, match="not understood"):
        probe(LiveHost(), base, 1)


def _probed(*outputs: str, again: tuple[str, ...] | None = None, prompts: str = "p") -> dict[str, Any]:
    return {"prompts_sha256": prompts, "tokens": 48, "outputs": list(outputs), "again": list(again or outputs)}


def test_what_two_sides_say_of_each_other() -> None:
    one, other = _probed("a", "b", "c"), _probed("a", "x", "y")
    assert judged([one, one], [one]) == ""
    assert "2 of 3" in judged([one], [other])
    assert judged([one], [{}]) == ""
    assert "different prompts" in judged([one], [_probed("a", prompts="q")])
    assert "side B" in judged([one], [_probed("a", "b", "c", again=("a", "b", "d"))])
    assert "side A" in judged([one, other], [one])
