"""Asking a server over HTTP: an answer, or in one sentence why there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence

from envsnap.host import Host, value_of
from envsnap.reading import Found, Json, Missing, Why, attempt
from envsnap.scope import Scope

SECONDS = 3.0
LIMIT = 8 << 20


def base_of(address: str) -> str:
    """The address that paths are put behind; a bare HOST:PORT is one too. Whatever names a user in it is dropped.

    Raises: Missing.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in ("http", "https"):
        raise Missing(Why.ABSENT, "that is no address of a server; one looks like http://127.0.0.1:30000")
    host = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}"


def texts(host: Host, scope: Scope, base: str, paths: Sequence[str]) -> dict[str, Found]:
    """The body that the server answers at each path, all asked for at once."""
    seconds = host.left(SECONDS)
    found = host.found([["http", base + path, None, seconds, LIMIT, scope.api_key_file] for path in paths])
    return {path: attempt(_body, path, answer, bool(scope.api_key_file)) for path, answer in zip(paths, found)}


def objects(host: Host, scope: Scope, base: str, paths: Sequence[str]) -> dict[str, Found]:
    """The JSON object that the server answers at each path."""
    return {path: attempt(parsed, path, body) for path, body in texts(host, scope, base, paths).items()}


def parsed(path: str, body: Found) -> dict[str, Json]:
    """The JSON object in a body. Raises: Missing, HostError."""
    try:
        # NOTE: Python's servers write NaN and Infinity, which are no JSON and can be compared with nothing.
        value = json.loads(str(value_of(body)), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Missing(Why.NOT_SUPPORTED, f"what the server answers to {path} is no JSON object")
    return value


def _body(path: str, answer: Found, with_key: bool) -> str:
    reply = value_of(answer)
    status = reply["status"]
    if status == 200:
        return str(reply["body"])
    if status in (401, 403):
        how = "refuses the key for" if with_key else "wants a key (--api-key-file) for"
        raise Missing(Why.DENIED, f"the server {how} {path}")
    if status in (404, 405, 501):
        raise Missing(Why.NOT_SUPPORTED, f"the server has no {path}")
    if 300 <= status < 400:
        raise Missing(Why.NOT_SUPPORTED, f"the server redirects {path}, which is not followed")
    raise Missing(Why.NOT_SUPPORTED, f"the server answers {path} with status {status}; it may still be starting")
