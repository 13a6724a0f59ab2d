"""No secret that went in comes out, wherever it stands: every form in every place, generated."""

from __future__ import annotations

import base64
import json
import re
import shlex
import string
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.redact import Redactor

ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "-_"
HEX = "0123456789abcdef"


def _of(alphabet: str, low: int, high: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=low, max_size=high or low)


def _issued(prefix: str, alphabet: str, low: int, high: int | None = None) -> st.SearchStrategy[str]:
    return _of(alphabet, low, high).map(lambda body: prefix + body)


ISSUED = {
    "github": st.sampled_from(["ghp_", "gho_", "ghs_", "ghu_", "ghr_"]).flatmap(lambda p: _issued(p, ALNUM, 36)),
    "github fine-grained": _issued("github_pat_", ALNUM + "_", 82),
    "gitlab": _issued("glpat-", URL_SAFE, 20),
    "hugging face": _issued("hf_", string.ascii_letters, 34),
    "openai": _issued("sk-", ALNUM, 48),
    "openai project": _issued("sk-proj-", URL_SAFE, 48, 156),
    "anthropic": _issued("sk-ant-api03-", URL_SAFE, 95),
    "aws id": st.sampled_from(["AKIA", "ASIA"]).flatmap(lambda p: _issued(p, string.ascii_uppercase + "234567", 16)),
    "google": _issued("AIza", URL_SAFE, 35),
    "slack": st.sampled_from("baprs").flatmap(lambda k: _issued(f"xox{k}-", string.digits + "-" + ALNUM, 24, 60)),
    "pypi": _issued("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 80),
    "npm": _issued("npm_", ALNUM, 36),
    "nvidia": _issued("nvapi-", URL_SAFE, 64),
    "wandb": _issued("wandb_v1_", ALNUM, 70),
    "groq": _issued("gsk_", ALNUM, 52),
    "jwt": st.tuples(_of(URL_SAFE, 16, 60), _of(URL_SAFE, 20, 200), _of(URL_SAFE, 43)).map(
        lambda parts: "eyJ" + ".".join(parts)
    ),
    "pem": st.binary(min_size=120, max_size=400).map(
        lambda data: "-----BEGIN PRIVATE KEY-----\n" + base64.encodebytes(data).decode() + "-----END PRIVATE KEY-----"
    ),
}
"""Secrets that are known by their form alone."""

_CODE = re.compile(r"[A-Za-z]+(?:\.[A-Za-z]+)+.*|lambda|await|string|object|optional", re.IGNORECASE)
NO_SECRETS = {"true", "false", "yes", "no", "on", "off", "none", "null", "nil", "undefined", "auto", "empty", "0", "1"}


def _meant(password: str) -> bool:
    """Neither a switch nor a mask, which count as no secret, nor what looks like code: `os.environ`, `lambda`."""
    word = password.strip("xX*.-").replace("_", "")
    return bool(word) and password.lower() not in NO_SECRETS and not _CODE.fullmatch(word)


PASSWORDS = st.one_of(
    st.sampled_from(["hunter2", "Tr0ub4dor&3", "correct-horse", "p", "Secret", "postgres", "a=b", "x.y", "12345678"]),
    _of(ALNUM, 6, 40),
    _of(HEX, 40),
    _of(string.ascii_letters + string.digits + "+/=_-.~!*", 8, 30),
).filter(_meant)
"""Secrets that are known by the name beside them."""

PLACES: dict[str, Callable[[Redactor, str], object]] = {
    "environment": lambda r, s: r.clean_value("env[SOMETHING]", s),
    "argument": lambda r, s: r.clean_value("process[0].argv", ["server", "--x", s, f"--y={s}", f"-z{s}" * 0]),
    "shell": lambda r, s: r.clean_text(f"export X={shlex.quote(s)}; run --with {shlex.quote(s)} | tee log"),
    "url": lambda r, s: r.clean_text(f"GET https://host/path?x=1&k={s}&y=2#frag"),
    "remote": lambda r, s: r.clean_value("repo[x].remote", f"https://{s}:x-oauth-basic@github.com/org/repo.git"),
    "object": lambda r, s: r.clean_value("server[0].args", {"a": [{"b": s}, [s]], s: {"c": f"<{s}>"}}),
    "json text": lambda r, s: r.clean_text(json.dumps({"a": {"b": json.dumps({"c": s})}})),
    "patch": lambda r, s: r.clean_value(
        "repo[x].patch",
        f"@@ -1 +1 @@\n-x = {s!r}\n+x = '{s}'  # {s}\n" + "".join(f"+{line}\n" for line in s.split("\n")),
    ),
    "error": lambda r, s: r.clean_text(f"RuntimeError: 401 for key {s}: rejected, see /tmp/{s}"),
    "log line": lambda r, s: r.clean_value("server.log", [f"2026-01-01 INFO loaded ({s}), retrying"]),
}

NAMED: dict[str, Callable[[Redactor, str], object]] = {
    "environment": lambda r, s: r.clean_value("worker[scheduler_TP0].env[DB_PASSWORD]", s),
    "environ": lambda r, s: r.clean({"env": {"WANDB_API_KEY": s}, "list": [f"WANDB_API_KEY={s}"]}),
    "argument": lambda r, s: r.clean(["server", "--api-key", s, f"--admin-api-key={s}"]),
    "object": lambda r, s: r.clean({"args": {"api_key": s, "deep": [{"ssl_keyfile_password": s}]}}),
    "json": lambda r, s: r.clean_text(json.dumps({"x": 1, "api_key": s, "y": 2}, indent=1)),
    "json in json": lambda r, s: r.clean_text(json.dumps(json.dumps({"x": 1, "api_key": s}))),
    "python": lambda r, s: r.clean_text(f"+    client = Client(url, api_key={s!r}, timeout=3)\n"),
    "python environ": lambda r, s: r.clean_text(f'+os.environ["HF_TOKEN"] = "{s}"\n+api_key: str = "{s}"\n'),
    "shell": lambda r, s: r.clean_text(f"set -e\nexport DB_PASSWORD={shlex.quote(s)}\nAPI_KEY={shlex.quote(s)} run\n"),
    "command line": lambda r, s: r.clean_text(f"sglang serve --api-key {s} --port 1 --admin-api-key={s} --x"),
    "yaml": lambda r, s: r.clean_text(f"db:\n  user: me\n  password: {s}\n  port: 1\n"),
    "header": lambda r, s: r.clean_text(f"> X-Api-Key: {s}\n> Authorization: Bearer {s}\n> Accept: */*"),
}
URLS: dict[str, Callable[[Redactor, str], object]] = {
    "userinfo": lambda r, s: r.clean_text(f"pull from https://me:{s}@host.example:8080/x/y failed"),
    "database": lambda r, s: r.clean({"dsn": f"postgresql://me:{s}@db/name?sslmode=off", "url": f"redis://:{s}@h:1/0"}),
    "query": lambda r, s: r.clean_text(f"see https://host/x?user=me&access_token={s}&n=1 and ?sig=x"),
    "connection string": lambda r, s: r.clean_text(
        f"Server=db;Uid=me;Password={s};Port=1 | host=db password={s} user=me"
    ),
}


def _survives(secret: str, cleaned: object) -> bool:
    text = json.dumps(cleaned)
    return secret in text or json.dumps(secret)[1:-1] in text or (len(secret) > 60 and secret[28:60] in text)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", ISSUED)
def test_known_forms_never_come_out(form: str, place: str) -> None:
    @settings(max_examples=12, deadline=None, database=None, derandomize=True)
    @given(ISSUED[form])
    def check(secret: str) -> None:
        assert not _survives(secret, PLACES[place](Redactor(), secret))

    check()


@pytest.mark.parametrize("place", NAMED)
def test_named_secrets_never_come_out(place: str) -> None:
    @settings(max_examples=150, deadline=None, database=None, derandomize=True)
    @given(PASSWORDS)
    def check(secret: str) -> None:
        cleaned = json.dumps(NAMED[place](Redactor(), secret))
        # NOTE: a short one may be part of the words around it; what must differ is the text with another in its place.
        other = json.dumps(NAMED[place](Redactor(), secret[::-1] + "q7"))
        assert "<redacted" in cleaned
        assert _around(cleaned) == _around(other)

    check()


@pytest.mark.parametrize("place", URLS)
def test_credentials_in_urls_never_come_out(place: str) -> None:
    @settings(max_examples=150, deadline=None, database=None, derandomize=True)
    @given(_of(ALNUM + "-_.~!*", 3, 40).filter(lambda p: _meant(p) and not p.isdigit()))
    def check(secret: str) -> None:
        cleaned = json.dumps(URLS[place](Redactor(), secret))
        assert "<redacted" in cleaned
        assert _around(cleaned) == _around(json.dumps(URLS[place](Redactor(), secret[::-1] + "q7")))

    check()


def _around(cleaned: str) -> list[str]:
    import re

    return re.split(r"<redacted k=\w{8} h=\w{16}>", cleaned)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False), lambda inner: (
    st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["token", "api_key", "value", "name", "key"]), inner)
)))  # fmt: skip
def test_cleaning_twice_is_cleaning_once(value: object) -> None:
    redactor = Redactor()
    once = redactor.clean(value)
    assert redactor.clean(once) == once


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.text(st.sampled_from("abcXYZ019 =:\"'\\/@?&;,.-_\n[](){}$"), max_size=80), st.sampled_from(
    ["token", "API_KEY", "password", "://", "Bearer ", "--api-key ", "-----BEGIN PRIVATE KEY-----", "sk-"]
))  # fmt: skip
def test_text_is_cleaned_without_error(text: str, word: str) -> None:
    redactor = Redactor()
    once = redactor.clean_text(text[:40] + word + text[40:])
    assert redactor.clean_text(once) == once


@pytest.mark.parametrize("place", ["yaml", "header"])
@pytest.mark.parametrize("secret", ["os.A0000", "config.4Tr0ub4", "self.pass9word", "not+A0000", "lambda-77xx"])
def test_a_secret_that_begins_like_code_is_one(place: str, secret: str) -> None:
    assert secret not in str(NAMED[place](Redactor(), secret))


def test_code_beside_a_secrets_name_is_none() -> None:
    for code in ("os.environ", "config.api_key", "self.password", "not ready", "await fetch()", "lambda: 1"):
        text = f"password={code}\n"
        assert Redactor().clean_text(text) == text
