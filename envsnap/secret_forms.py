"""Secrets in free text: where they begin and end.

Known by the form in which an issuer writes its tokens, as a block of a private key, by the place of credentials in
a URL or behind the name of their scheme (`Bearer …`), and by a secret's name beside them (`secret_pairs`).

Fast on large patches: a substring search finds the few places worth a look, and only there an anchored, bounded
regular expression is matched, so that the time is linear in the text whatever stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from envsnap.secret_names import Secrecy, is_reference, is_secret, looks_random
from envsnap.secret_pairs import (
    STEMS,
    Judge,
    Span,
    after_options,
    after_short_options,
    beside_names,
    in_percents,
    in_tags,
)

Spans = Iterator[Span]

_ISSUED = {
    "AIza": r"AIza[\w-]{35}",
    "AKIA": r"AKIA[A-Z0-9]{16}",
    "ASIA": r"ASIA[A-Z0-9]{16}",
    "GOCSPX-": r"GOCSPX-[\w-]{20,}",
    "api_org_": r"api_org_[A-Za-z0-9]{30,}",
    "dckr_pat_": r"dckr_pat_[\w-]{20,}",
    "eyJ": r"eyJ(?=([\w-]{8,512}\.))\1[\w-]{0,8192}\.[\w-]{0,2048}(?:\.[\w-]{0,8192}){0,}",
    "gho_": r"gho_[A-Za-z0-9]{20,}",
    "ghp_": r"ghp_[A-Za-z0-9]{20,}",
    "ghr_": r"ghr_[A-Za-z0-9]{20,}",
    "ghs_": r"ghs_[A-Za-z0-9]{20,}",
    "ghu_": r"ghu_[A-Za-z0-9]{20,}",
    "github_pat_": r"github_pat_\w{20,}",
    "glpat-": r"glpat-[\w.-]{16,}",
    "gsk_": r"gsk_[A-Za-z0-9]{40,}",
    "hf_": r"hf_[A-Za-z0-9]{30,}",
    "hooks.slack.com/": r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{16,}",
    "npm_": r"npm_[A-Za-z0-9]{30,}",
    "nvapi-": r"nvapi-[\w-]{20,}",
    "pypi-Ag": r"pypi-Ag[\w-]{30,}",
    "sk-": r"sk-(?:(?:proj|svcacct|admin|ant|or|lf|live|test)-[\w-]{16,}|[A-Za-z0-9]{20,})",
    "sk_live_": r"sk_live_[A-Za-z0-9]{16,}",
    "wandb_v1_": r"wandb_v1_\w{20,}",
    "xai-": r"xai-[A-Za-z0-9]{40,}",
    "xox": r"xox[abeoprs]-[\w-]{10,}",
    "ya29.": r"ya29\.[\w-]{20,}",
}
"""What the tokens of an issuer begin with, and the whole of one. Neither letter nor digit stands before it."""

_SHORTEST_ISSUED = 15


def secrets_in(text: str, secrecy_of: Judge, stems: Iterable[str] = STEMS) -> list[Span]:
    """Begin and end of every secret in `text`, in order and apart. `secrecy_of` judges the names in it."""
    found: list[Span] = []
    if len(text) >= _SHORTEST_ISSUED:
        for prefix in [p for p in _ISSUED if p in text]:
            found += _issued(text, prefix, _ISSUED[prefix])
    if "://" in text:
        found += _in_urls(text)
    if "--" in text:
        found += _private_keys(text)
        found += after_options(text, secrecy_of)
    if " -" in text:
        found += after_short_options(text)
    if "</" in text:
        found += in_tags(text, secrecy_of)
    if "%3" in text:
        found += in_percents(text, secrecy_of)
    if "=" in text or ":" in text or " " in text or '"' in text:
        low = text.lower()
        if len(low) != len(text):  # NOTE: a few letters have a longer lower case, which would shift every position.
            low = "".join(c.lower() if c < "\x80" else c for c in text)
        if " " in text:
            found += _after_schemes(text, low)
        for stem in [s for s in stems if s in low]:
            found += beside_names(text, low, secrecy_of, stem)
    return _merged(found) if found else found


def _merged(spans: list[Span]) -> list[Span]:
    spans.sort()
    merged = spans[:1]
    for start, end in spans[1:]:
        if start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _issued(text: str, prefix: str, pattern: str) -> Spans:
    at = text.find(prefix)
    while at >= 0:
        alone = at == 0 or not (text[at - 1].isalnum() and text[at - 1].isascii())
        match = _compiled(pattern).match(text, at) if alone else None
        if match:
            yield match.span()
        at = text.find(prefix, match.end() if match else at + len(prefix))


_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_WHOLE = re.compile(r"[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_PART = re.compile(r"(?:[\s\"'`+,\\-]*(?:\\[nr])*[A-Za-z0-9+/=]{20,})+")


def _private_keys(text: str) -> Spans:
    """Blocks of private keys: to their end, or as far as a cut one goes on. The bare words of one are no key."""
    for begin in _KEY_BEGIN.finditer(text):
        rest = _KEY_WHOLE.match(text, begin.end())
        if not rest or rest.end() - rest.start() < 64:
            rest = _KEY_PART.match(text, begin.end())
        if rest:
            yield begin.start(), rest.end()


_USER = re.compile(
    r"://(?:([^\s:/?#\"'`<>@\\]{0,256}):(?!\d{1,5}(?:[/?#,;]|\Z))([^\s\"'`<>]{1,512})|([^\s:/?#\"'`<>@\\]{1,512}))@"
)
_URL_END = re.compile(r"[\s\"'`<>]")
_ACCOUNTS = ("git", "hg", "svn", "oauth2", "anonymous", "token", "user", "username", "root", "x-access-token")


def _in_urls(text: str) -> Spans:
    """`scheme://user:password@host` and `https://token@host`."""
    at, end, last = text.find("://"), 0, 0
    while at >= 0:
        if at >= end:
            found = _URL_END.search(text, at)
            end = found.end() if found else len(text)
            last = text.rfind("@", at, end)
        match = _USER.match(text, at, end) if at < last else None
        if match:
            yield from _credentials(text, at, match)
        at = text.find("://", match.end() if match else at + 3 if at < last else end)


def _credentials(text: str, at: int, match: re.Match[str]) -> Spans:
    _, password, alone = match.groups()
    if alone is not None:
        web = text[max(0, at - 5) : at].lower().endswith(("http", "https"))
        if (web and alone.lower() not in _ACCOUNTS and _literal(alone)) or looks_random(alone):
            yield match.span(3)
    elif password == "x-oauth-basic":
        yield match.span(1)
    elif _literal(password):
        yield match.span(2)


def _literal(value: str) -> bool:
    """Whether a value is one, and not a mask, a variable or a placeholder in code."""
    return is_secret(Secrecy.ALWAYS, value) and not is_reference(value)


_SCHEME = re.compile(r"(?:bearer|basic)[ \t]+([a-z0-9._~+/-]{8,8192}={0,2})")


def _after_schemes(text: str, low: str) -> Spans:
    """`Bearer …` and `Basic …` without their header's name."""
    for scheme in ("bearer", "basic"):
        at = low.find(scheme + " ")
        while at >= 0:
            match = _SCHEME.match(low, at)
            if match and (looks_random(text[slice(*match.span(1))]) or match[1].endswith("=")):
                yield match.span(1)
            at = low.find(scheme + " ", match.end() if match else at + 6)
