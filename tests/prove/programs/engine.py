"""A pretend engine for tests: python engine.py --port N [--graphs MODE] [--threads N]; some of what it is given matters.

NCCL_PROTO=Simple slows it by half, --graphs off by a third; `delay.py`, where it can be imported, by its FACTOR.
It does not start under ENGINE_BROKEN=1, and overwrites OMP_NUM_THREADS whatever it is given.
"""

import json
import os
import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

if os.environ.get("ENGINE_BROKEN") == "1":
    raise SystemExit("broken")
os.environ["OMP_NUM_THREADS"] = "4"
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
seconds = 0.010
seconds *= 1.5 if os.environ.get("NCCL_PROTO") == "Simple" else 1.0
seconds *= 1.33 if options.get("--graphs") == "off" else 1.0
try:
    import delay
except ImportError:
    pass
else:
    seconds *= delay.FACTOR
seconds *= random.lognormvariate(0, 0.01)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"speed": 1 / seconds}).encode()
        self.send_response(200 if self.path in ("/health", "/speed") else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(options["--port"])), Handler).serve_forever()
