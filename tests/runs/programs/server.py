"""A small server for tests: python server.py PORT [READY_AFTER_SECONDS].

503 until ready, then its environment as JSON. /count counts a request of 10 tokens, /metrics tells the counts as SGLang
does, /die ends the server with exit code 9, and /generate answers a posted prompt.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

READY_AT = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 0)
COUNTS = {"requests": 0}


def metrics() -> str:
    n = COUNTS["requests"]
    return (
        f'sglang:num_requests_total{{model_name="m"}} {n}\n'
        f'sglang:generation_tokens_total{{model_name="m"}} {10 * n}\n'
        f'sglang:prompt_tokens_total{{model_name="m"}} {4 * n}\n'
        f'sglang:cuda_graph_passes_total{{mode="decode_none",tp_rank="0"}} {9 * n}\n'
        f'sglang:inter_token_latency_seconds_sum{{model_name="m"}} {0.09 * n}\n'
        f'sglang:inter_token_latency_seconds_count{{model_name="m"}} {9 * n}\n'
    )


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/die":
            os._exit(9)
        COUNTS["requests"] += self.path == "/count"
        about = {"arm": os.environ.get("ARM"), "argv": sys.argv, "pid": os.getpid()}
        self._send((metrics() if self.path == "/metrics" else json.dumps(about)).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        COUNTS["requests"] += 1
        self._send(json.dumps({"text": body["text"].upper(), "output_ids": [1, 2]}).encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200 if time.monotonic() >= READY_AT else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
