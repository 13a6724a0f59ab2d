"""A pretend engine for tests: python engine.py --port N [--OPTION VALUE]…

What slows it stands in rules.json of the working directory: {"NAME": ["VALUE", FACTOR]} for variables, "--option" for
arguments; `delay.py`, where it can be imported, slows it by its FACTOR. Under {"broken": "NAME=VALUE"} it does not
start with that variable, and {"pinned": "NAME=VALUE"} is one that it sets itself.
"""

import json
import os
import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

rules = json.loads(Path("rules.json").read_text())
for code in ("commit", "dirty"):  # what `delay.py` reads
    rules.pop(code, None)
name, _, value = rules.pop("broken", "").partition("=")
if name and os.environ.get(name) == value:
    raise SystemExit(f"{name} is broken")
name, _, value = rules.pop("pinned", "").partition("=")
if name:
    os.environ[name] = value
given = {**os.environ, **dict(zip(sys.argv[1::2], sys.argv[2::2]))}
seconds = 0.010 * random.lognormvariate(0, 0.01)
for name, (value, factor) in rules.items():
    seconds *= factor if given.get(name) == value else 1.0
try:
    import delay  # type: ignore[import-not-found]
except ImportError:
    pass
else:
    seconds *= delay.FACTOR


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"speed": 1 / seconds}).encode()
        self.send_response(200 if self.path in ("/health", "/speed") else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(given["--port"])), Handler).serve_forever()
