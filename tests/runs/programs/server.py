"""A small server for tests: python server.py PORT [READY_AFTER_SECONDS]; 503 until ready, then its environment."""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

READY_AT = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 0)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ready = time.monotonic() >= READY_AT
        body = json.dumps({"arm": os.environ.get("ARM"), "argv": sys.argv}).encode()
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
