"""What is secret is replaced by a keyed hash, so that a changed secret is still seen to change.

What stands in a secret's place has one form, everywhere:

    <redacted k=1a2b3c4d h=9f86d081884c7d65>

`k` names the key, `h` is the beginning of HMAC-SHA256(key, secret). Without the key a short or guessable secret
cannot be found from it; neither its length nor any part of it is kept. Hashes of different keys say nothing about
each other: `comparable` knows.

A secret is recognised by its name (`secret_names`) and by its form (`secret_forms`), wherever it stands.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.reading import Json
from envsnap.redaction_key import stored_key
from envsnap.secret_forms import secrets_in
from envsnap.secret_names import Secrecy, is_secret, secrecy_of
from envsnap.secret_pairs import SHORT_OPTIONS, STEMS

MAX_DEPTH = 48
"""How deeply a value may be nested; what lies deeper is cut, since a snapshot that deep could not be loaded."""

HASH = re.compile(r"<redacted k=([0-9a-f]{8}) h=([0-9a-f]{16})>")
"""What stands in a secret's place."""

_OPTION = re.compile(r"--?[A-Za-z][\w.-]{0,95}")
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z_][\w.-]{0,95})=")
_SPLIT = re.compile(r"(<redacted k=[0-9a-f]{8} h=[0-9a-f]{16}>)")


def redacted_parts(text: str) -> tuple[str, str] | None:
    """Key id and digest, if `text` as a whole stands for a secret."""
    match = HASH.fullmatch(text)
    return (match[1], match[2]) if match else None


def comparable(a: Json, b: Json) -> bool:
    """Whether it can be known if two values differ.

    It cannot where only hashes of different keys, or a hash and a clear text, stand between them.
    """
    one, two = (value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in (a, b))
    if one == two:
        return True
    hashes_one, hashes_two = HASH.findall(one), HASH.findall(two)
    if not hashes_one and not hashes_two:
        return True
    around_one, around_two = HASH.split(one)[::3], HASH.split(two)[::3]
    if around_one == around_two:
        return any(x[0] == y[0] and x != y for x, y in zip(hashes_one, hashes_two))
    return not (_fits(one, around_two) or _fits(two, around_one))


def _fits(text: str, around: list[str]) -> bool:
    """Whether `text` is what stands around the hashes of another, with anything in their places."""
    first, *middle, last = around if len(around) > 1 else (*around, "")
    if len(around) < 2 or not text.startswith(first) or not text.endswith(last):
        return False
    at = len(first)
    for part in middle:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return at <= len(text) - len(last)


class Redactor:
    """Cleans everything that goes into a snapshot. Threads may share one.

    `store` is the directory that keeps the key; it is written only when the first secret is found. Without one,
    or where its key cannot be trusted, the key lives as long as this object: its hashes then compare within one
    snapshot alone, and `summary` says so. `reveal` keeps what stands under a name clear, `redact` hides one
    more; both take names in which `*` matches anything, and `redact` wins.
    """

    def __init__(self, store: Path | None = None, reveal: Collection[str] = (), redact: Collection[str] = ()) -> None:
        self._store = store
        self._reveal = _any_of(reveal)
        self._redact = _any_of(redact)
        self._stems = (*STEMS, *(stem for name in redact if (stem := max(name.split("*"), key=len).lower())))
        self._lock = threading.Lock()
        self._key = b""
        self._key_id = ""
        self._kept = "unused"
        self._reason = ""
        self._count = 0
        self._hashes: dict[str, str] = {}
        self._named_secrets: dict[str, str] = {}

    def clean_value(self, path: str, value: Json) -> Json:
        """The value at a path, without secrets: by the name at the path's end and by the form of the value."""
        name = _last_name(path)
        return self._named(name, value, 0) if name else self._cleaned(value, Secrecy.NEVER, 0)

    def clean_path(self, path: str) -> str:
        """A path without secrets in its instances (a server that is named by a URL with a password, say)."""
        return path if len(path) < 24 else _rebuilt(path, self.clean_text)

    def clean_text(self, text: str) -> str:
        """Free text (messages, patches, logs) in which each secret, and nothing around it, is replaced."""
        if "\0" in text:  # a command line or an environment, as the kernel shows them
            return "\0".join(map(str, self._items(text.split("\0"), Secrecy.NEVER, 0)))
        if "<redacted k=" not in text:
            return self._without_secrets(text)
        return "".join(p if i % 2 else self._without_secrets(p) for i, p in enumerate(_SPLIT.split(text)))

    def clean(self, value: Json) -> Json:
        """Any JSON value, every string in it cleaned; names of fields, options and variables in it count."""
        return self._cleaned(value, Secrecy.NEVER, 0)

    def sweep(self, value: Json) -> Json:
        """Any JSON value without the secrets that were found by name so far, where nothing near them tells.

        A password that somebody gave as a bare argument, say. Short and common words are left alone: whose password
        is `postgres` does not want that word replaced everywhere.
        """
        return self._swept(value, tuple(self._named_secrets.copy().items()))

    def _swept(self, value: Json, secrets: tuple[tuple[str, str], ...]) -> Json:
        if not secrets:
            return value
        if isinstance(value, str):
            for secret, hashed in secrets:
                if secret in value:
                    value = value.replace(secret, hashed)
            return value
        if isinstance(value, list):
            return [self._swept(item, secrets) for item in value]
        if isinstance(value, dict):
            return {self._swept(name, secrets): self._swept(inner, secrets) for name, inner in value.items()}
        return value

    def sweep_path(self, path: str) -> str:
        """A path without those secrets."""
        return _rebuilt(path, lambda text: str(self.sweep(text))) if self._named_secrets else path

    def summary(self) -> dict[str, Json]:
        """What was done: `key_id`, how many secrets were `redacted`, the `key`: stored, ephemeral or unused.

        `reason` says why a key that should have been stored was not.
        """
        with self._lock:
            return {"key_id": self._key_id, "redacted": self._count, "key": self._kept, "reason": self._reason}

    # -- where secrets stand --------------------------------------------------------------------------------

    def _secrecy(self, name: str) -> Secrecy:
        if self._redact and self._redact.fullmatch(name):
            return Secrecy.ALWAYS
        if self._reveal and self._reveal.fullmatch(name):
            return Secrecy.NEVER
        return secrecy_of(name)

    def _named(self, name: str, value: Json, depth: int, above: Secrecy = Secrecy.NEVER) -> Json:
        """A value that stands under a name, itself under one of secrecy `above`."""
        if self._reveal and self._reveal.fullmatch(name) and not (self._redact and self._redact.fullmatch(name)):
            return value
        return self._cleaned(value, max(self._secrecy(name), above), depth)

    def _cleaned(self, value: Json, secrecy: Secrecy, depth: int) -> Json:
        if isinstance(value, str):
            return self._hashed(value) if secrecy and is_secret(secrecy, value) else self.clean_text(value)
        if isinstance(value, (bool, type(None))):
            return value
        if isinstance(value, (int, float)):
            hidden = secrecy >= Secrecy.UNLESS_PATH and is_secret(secrecy, str(value))
            return self._hashed(str(value)) if hidden else value
        if depth >= MAX_DEPTH:
            return "<nested too deeply>"
        if isinstance(value, dict):
            return self._object(value, secrecy, depth)
        return list(self._items(value, secrecy, depth))

    def _object(self, fields: dict[str, Json], secrecy: Secrecy, depth: int) -> Json:
        # A variable may also be written {"name": NAME, "value": VALUE}, as container runtimes do.
        label = fields.get("name", fields.get("key"))
        return {
            self.clean_text(str(name)): self._named(
                label if isinstance(label, str) and name == "value" else str(name), value, depth + 1, secrecy
            )
            for name, value in fields.items()
        }

    def _items(self, items: list[Json], secrecy: Secrecy, depth: int) -> Iterator[Json]:
        """The items of a list, which may be a command line, an environment, or the lines of a text."""
        short = ""
        expected = Secrecy.NEVER
        in_key = False
        for item in items:
            if not isinstance(item, str):
                yield self._cleaned(item, secrecy, depth + 1)
                expected = Secrecy.NEVER
            elif in_key or ("PRIVATE KEY-----" in item and "-----BEGIN " in item):
                in_key = "-----END " not in item
                yield self._hashed(item)
            elif expected and not item.startswith("--"):
                yield self._cleaned(item, expected, depth)
                expected = Secrecy.NEVER
            elif short and item.startswith(short):
                expected = Secrecy.ALWAYS if item == short else Secrecy.NEVER
                yield item if expected else short + self._hashed(item[len(short) :])
            else:
                short = SHORT_OPTIONS.get(item.rsplit("/", 1)[-1], short)
                yield self._item(item, secrecy)
                expected = self._secrecy(item.lstrip("-")) if _OPTION.fullmatch(item) else Secrecy.NEVER

    def _item(self, item: str, secrecy: Secrecy) -> str:
        match = None if "\0" in item else _ASSIGNED.match(item)
        if match and is_secret(self._secrecy(match[1].lstrip("-")), item[match.end() :]):
            return match[0] + self._hashed(item[match.end() :])
        return self._hashed(item) if is_secret(secrecy, item) else self.clean_text(item)

    def _without_secrets(self, text: str) -> str:
        spans = secrets_in(text, self._secrecy, self._stems)
        if not spans:
            return text
        parts, done = [], 0
        for start, end in spans:
            parts += [text[done:start], self._hashed(text[start:end], named=False)]
            done = end
        return "".join([*parts, text[done:]])

    # -- the hash and its key -------------------------------------------------------------------------------

    def _hashed(self, secret: str, named: bool = True) -> str:
        if HASH.fullmatch(secret):
            return secret
        with self._lock:
            self._count += 1
            if secret not in self._hashes:
                import hashlib
                import hmac

                if not self._key:
                    self._key, self._reason = stored_key(self._store)
                    self._kept = "ephemeral" if self._reason else "stored"
                    self._key_id = hashlib.sha256(b"envsnap redaction key " + self._key).hexdigest()[:8]
                digest = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256").hex()[:16]
                self._hashes[secret] = f"<redacted k={self._key_id} h={digest}>"
            if named and len(secret) >= (12 if secret.isalpha() else 8):
                self._named_secrets[secret] = self._hashes[secret]
            return self._hashes[secret]


def _last_name(path: str) -> str:
    """The name that a path ends in: its instance where it has one (`env[HF_TOKEN]`), else its last field."""
    if path.endswith("]"):
        return instances_of(path)[-1] if path.endswith('"]') else path[path.rfind("[") + 1 : -1]
    return path[path.rfind(".") + 1 :]


def _rebuilt(path: str, clean: Callable[[str], str]) -> str:
    if "[" not in path or clean(path) == path:
        return path
    return path_of(pattern_of(path), *(clean(instance) for instance in instances_of(path)))


def _any_of(names: Collection[str]) -> re.Pattern[str] | None:
    if not names:
        return None
    return re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in names), re.IGNORECASE | re.DOTALL)
