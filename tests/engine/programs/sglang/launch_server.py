"""A stand-in for the engine's server: python -m sglang.launch_server --port N … answers as far as the bench asks."""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CACHED: set[str] = set()


def token_seconds(argv: list[str]) -> float:
    """A token takes longer where there are no CUDA graphs for it."""
    off = "--disable-cuda-graph" in argv or "--cuda-graph-backend-decode disabled" in " ".join(argv)
    return 0.005 if off else 0.001


TOKEN_SECONDS = token_seconds(sys.argv)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._send(b"" if self.path == "/health" else b"{}", 200 if self.path == "/health" else 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/flush_cache":
            CACHED.clear()
            return self._send(b"")
        asked = json.loads(body)
        hit = asked["text"] in CACHED
        CACHED.add(asked["text"])
        count = asked["sampling_params"]["max_new_tokens"]
        self.send_response(200)
        self.end_headers()
        for token in range(1, count + 1):
            time.sleep(TOKEN_SECONDS if token > 1 or hit else 0.01)
            meta: dict[str, float] = {"completion_tokens": token, "cached_tokens": int(hit)}
            if "SGLANG_SIMULATE_ACC_LEN" in os.environ:
                meta |= {"spec_accept_length": 2.5, "spec_verify_ct": 1 + token // 3}
            self.wfile.write(b"data: " + json.dumps({"meta_info": meta}).encode() + b"\n\n")
        return None

    def _send(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
