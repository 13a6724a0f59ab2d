"""Secrets beside their names in free text: `export HF_TOKEN=…`, `"password": "…"`, `?sig=…`, `--api-key …`.

A patch is mostly code, where a secret's name often stands beside something else: a call, a type, another name.
What is plainly code stays; in doubt a value is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from envsnap.secret_names import Secrecy, is_reference, is_secret, looks_random

Span = tuple[int, int]
Judge = Callable[[str], Secrecy]

STEMS = ("token", "secret", "pass", "key", "cred", "auth", "cookie", "pwd", "sig", "jwt", "_pat")
"""What names of secrets have in them; a cheap first look, `secret_names` decides."""

_LONGEST = 8192
"""How far a value without an end of its own is followed."""

_OPTION = re.compile(r"--([A-Za-z][\w.-]{1,60})(?:[ \t]+(?:\\?[\"'])?|\\?[\"'],[ \t]*\\?[\"'])([^\s\"'\\]+)")


def after_options(text: str, secrecy_of: Judge) -> Iterator[Span]:
    """`--api-key …` on a command line that is one text."""
    for match in _OPTION.finditer(text):
        option, value = match.groups()
        if not value.startswith("--") and is_secret(secrecy_of(option), value) and not is_reference(value):
            yield match.span(2)


SHORT_OPTIONS = {"sshpass": "-p", "mysql": "-p", "mysqldump": "-p", "redis-cli": "-a", "curl": "-u"}
"""One-letter options that take a password, by program; most programs use the letters for something else."""

_REACH = 512
"""How far behind its program such an option is looked for."""


def after_short_options(text: str) -> Iterator[Span]:
    """`sshpass -p …` and `curl -u …` on a command line that is one text, or part of one."""
    for program, option in SHORT_OPTIONS.items():
        at = text.find(program)
        while at >= 0:
            end = at + len(program)
            alone = at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "_-.")
            match = _short(option).match(text, end, end + _REACH) if alone else None
            if match and not match[1].startswith(("$", "{", "<", "%")):
                yield match.span(1)
            at = text.find(program, match.end() if match else end)


@cache
def _short(option: str) -> re.Pattern[str]:
    return re.compile(rf"(?:[ \t]+(?!{option})[^\s;|&]+){{0,16}}?[ \t]+{option}[ \t]*\\?[\"']?([^\s\"'\\]+)")


_TAG = re.compile(r"<([A-Za-z_][\w.:-]{0,60})>([^<>]{1,512})</\1>")


def in_tags(text: str, secrecy_of: Judge) -> Iterator[Span]:
    """`<password>…</password>`."""
    for match in _TAG.finditer(text):
        if is_secret(secrecy_of(match[1]), match[2]) and not is_reference(match[2]):
            yield match.span(2)


_PERCENT = re.compile(
    r"(?:%22|%27|%26|%3F|(?<![\w.-]))([A-Za-z_][\w.-]{0,60})(?:%22|%27)?(?:%3A|%3D)(?:%20|\+)?(?:%22|%27)?"
    r"((?:[\w.~!*()+-]|%(?!22|27|26|2C|7D|5D)[0-9A-F]{2}){1,512})",
    re.IGNORECASE,
)


def in_percents(text: str, secrecy_of: Judge) -> Iterator[Span]:
    """`%22password%22%3A%22…%22`: JSON or a query that was put into a URL."""
    for match in _PERCENT.finditer(text):
        if is_secret(secrecy_of(match[1]), match[2]):
            yield match.span(2)


_NAME_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
_BESIDE = re.compile(
    r"""(?P<close>\\?["'`]\]?|\])?
    (?P<sep>[ \t]{0,4}(?:
          :[ \t]*[A-Za-z][\w.\[\],|\x20]{0,60}=[ \t]*(?=[rbfu]{0,2}["'])      # api_key: str = "…"
        | =>|:=|={2,3}(?=[ \t"'])|=|:)[ \t]{0,8}
      | ,[ \t]{0,4}(?=\\?["']))
    (?P<scheme>(?:bearer|basic|token|digest)[ \t]+)?
    (?:[rbfu]{0,2}(?P<quote>\\?["'`])(?:(?:bearer|basic)[ ]+)?)?
    """,
    re.VERBOSE | re.IGNORECASE,
)  # fmt: skip
_BARE = re.compile(r"[^\s\"'`&;<>|,]+(?:,(?!\s{0,4}[A-Za-z_][\w.-]{0,60}\s{0,4}=)[^\s\"'`&;<>|,]*)*")
_WORD = re.compile(r"\S+")
_IN_QUERY = re.compile(r"[^\s&#\"'`<>]+")
_LINE = re.compile(r"[^\n\"'`]+")
_CODE = re.compile(
    r"(?:(?:await|not|lambda)(?:[\s:]|\Z)|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\((?:[^()\s]*\)|[\"']|\Z)|\[[\w.\"']*\]?)|[(\[{]"
    r"|(?:self|cls|args|kwargs|os|config|cfg|settings|ctx|request|req|params|opts|options|this|env|data|obj"
    r"|[a-z]\w*_(?:args|config))\.[A-Za-z_]+(?![A-Za-z0-9])"
    r"|(?:str|string|bytes|int|bool|[Aa]ny|object|Optional|SecretStr)\W*\Z)"
)


@cache
def _stem(stem: str) -> re.Pattern[str]:
    return re.compile(re.escape(stem) + r"""[\w-]{0,24}(?=\\?["'`]?\]?[ \t]{0,4}[=:]|\\?["'][ \t]{0,2},)""", re.ASCII)


def beside_names(text: str, low: str, secrecy_of: Judge, stem: str) -> Iterator[Span]:
    """Values beside a secret's name, after `=`, `:` or, in quotes, a comma."""
    done = 0
    for hit in _stem(stem).finditer(low):
        if hit.start() < done:
            continue
        head = text[max(0, hit.end() - 96) : hit.end()]
        name = head[len(head.rstrip(_NAME_CHARS)) :]
        span = _value(text, name, secrecy_of, hit.end())
        if span:
            done = span[1]
            yield span


def _value(text: str, name: str, secrecy_of: Judge, end: int) -> Span | None:
    """Where the secret beside a name that ends at `end` stands; None where it is none."""
    secrecy = secrecy_of(name)
    beside = _BESIDE.match(text, end) if secrecy else None
    if not beside:
        return None
    start = beside.end()
    before = text[end - len(name) - 1 : end - len(name)]
    sep, quote = beside["sep"].strip(), beside["quote"]
    option, query, tight = name.startswith("--"), before in ("?", "&"), beside["sep"] == "="
    shell = tight and name.isupper()
    if quote:
        stop = _closing(text, quote, start)
    elif shell and before and before in "\"'`":
        stop = _closing(text, before, start)
    else:
        header = sep == ":" and not beside["scheme"] and name.lower().endswith(("authorization", "cookie"))
        bare = tight and not shell and not option
        rule = _LINE if header else _IN_QUERY if query else _BARE if bare else _WORD
        match = rule.match(text, start, start + (_LONGEST if secrecy >= Secrecy.UNLESS_PATH else 256))
        if not match:
            return None
        stop = start + len(match[0].rstrip("\"'`,;)]" if "{" in match[0] else "\"'`,;)]}"))
    value = text[start:stop]
    if not is_secret(secrecy, value) or is_reference(value):
        return None
    if quote and sep == ",":
        hidden = looks_random(value) or option
    elif quote:
        word = len(value) >= 8 and not any(c.isspace() for c in value) and sep in ("=", ":")
        hidden = secrecy >= Secrecy.UNLESS_PATH or word or looks_random(value)
    elif shell or beside["scheme"] or query or option:
        hidden = True
    else:
        certain = secrecy >= Secrecy.UNLESS_PATH or name.isupper() or looks_random(value)
        # NOTE: `connect(password=db_password)` in code; a password that is the name of one is out of luck here.
        code = sep == "=" or beside["close"]
        named = code and value.isidentifier() and secrecy_of(value) > Secrecy.IF_RANDOM
        prose = sep == ":" and name.lower().endswith(("secrets", "passwords", "credentials", "cookies", "keys"))
        hidden = certain and not named and not _CODE.match(value) and (looks_random(value) or not prose)
    return (start, stop) if hidden else None


def _closing(text: str, quote: str, start: int) -> int:
    """Where a quoted value ends: at its closing quote, or else at the end of its line."""
    line = text.find("\n", start, start + _LONGEST)
    line = min(len(text), start + _LONGEST) if line < 0 else line
    at = text.find(quote, start, line)
    while at > start and len(quote) == 1 and text[at - 1] == "\\" and text[at - 2] != "\\":
        at = text.find(quote, at + 1, line)
    return line if at < 0 else at
