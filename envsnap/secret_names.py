"""Which names hold secrets, and whether a value under such a name is one.

By suffix, never by substring: most names with TOKEN in them are tuning knobs (39 of SGLang's 770 registered
variables), and hiding a knob hides a cause. In doubt a value is hidden, since a keyed hash still shows a change.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache


class Secrecy(IntEnum):
    """When a value under a name is secret; larger is stricter."""

    NEVER = 0
    IF_RANDOM = 1
    """Where the value looks like a key: long, letters and digits mixed."""
    UNLESS_KNOB = 2
    """But for numbers, switches, paths and a model's own tokens such as `<|eot|>`."""
    UNLESS_PATH = 3
    """But for the name of a file that holds it."""
    ALWAYS = 4


_ALWAYS = """
password|passwords|passwd|passphrase|passcode|secret|secrets|authorization|cookie|cookies|jwt|bearer
apikey|apikeys|accesskey|secretkey|authtoken|accesstoken|accountkey
api key|api keys|access key|access keys|access key id|secret key|secret keys|secret key base|secret access key
auth key|signing key|encryption key|master key|account key|shared key|session key|storage key|license key
subscription key|webhook key|admin key|app key|application key|hmac key|jwt key|consumer key|shared access signature
access token|auth token|oauth token|bearer token|refresh token|session token|security token|personal token|api token
hub token|hf token|github token|gh token|gitlab token|npm token|pypi token|slack token|user token|admin token
db pass|database pass|mysql pass|postgres pass|pg pass|redis pass|rabbitmq pass|mongo pass|smtp pass|mail pass
user pass|admin pass|root pass|ftp pass|ldap pass|proxy pass|registry pass|docker pass|default pass|service pass
credentials relative uri|credentials full uri
"""
_UNLESS_PATH = "credential|credentials|creds|pwd|private key|privatekey|ssh key|ssl key|tls key|client key|deploy key"
_UNLESS_KNOB = "token|sshpass|pat"
_IF_RANDOM = "key|keys|tokens|auth|signature|sig|dsn|salt|seed phrase|webhook|webhook url"
_NEVER = """
public key|pub key|gpg key|host key|cache key|sort key|primary key|foreign key|partition key|graph key|shape key
"""
_MODEL_TOKENS = """
new per next num max min first last draft accept accepted stop end start eos bos pad unk mask cls sep boi eoi bot eot
image video audio think special input output prompt completion prefill decode extend verify total spec parent inter
vocab hot bonus begin prefix suffix middle fim chat tool call single multi batch target register
"""
"""Words before `token` that make it a piece of text, not a credential."""

_TAIL = """
value raw old new prod production dev test staging live primary secondary b64 base64 encoded
"""
"""Words after a secret's name that do not change what it is: `API_KEY_PROD`, `HF_TOKEN_2`."""


def _table() -> dict[tuple[str, ...], Secrecy]:
    listed = {
        Secrecy.NEVER: _NEVER,
        Secrecy.IF_RANDOM: _IF_RANDOM,
        Secrecy.UNLESS_KNOB: _UNLESS_KNOB,
        Secrecy.UNLESS_PATH: _UNLESS_PATH,
        Secrecy.ALWAYS: _ALWAYS,
    }
    return {
        tuple(ending.split()): secrecy
        for secrecy, text in listed.items()
        for ending in text.replace("\n", "|").split("|")
        if ending
    }


_ENDINGS = _table()
_MODEL_WORDS = frozenset(_MODEL_TOKENS.split())
_TAIL_WORDS = frozenset(_TAIL.split())
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[a-z0-9]+")
_NAME_CHARS = 96
"""How much of a name's end is looked at; names are not trusted."""


@lru_cache(maxsize=16384)
def secrecy_of(name: str) -> Secrecy:
    """When a value under this name (a variable, an option, a field of an object) is secret."""
    words = _WORD.findall(_CAMEL.sub("_", name[-_NAME_CHARS:]).lower())
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _TAIL_WORDS):
        words.pop()
    if not words:
        return Secrecy.NEVER
    if words[-1] == "token" and len(words) > 1 and words[-2] in _MODEL_WORDS:
        return Secrecy.IF_RANDOM
    for count in (3, 2, 1):
        found = _ENDINGS.get(tuple(words[-count:])) if len(words) >= count else None
        if found is not None:
            return found
    if words == ["pass"]:
        return Secrecy.UNLESS_KNOB  # in a query or a connection string; as a last word it mostly is a forward pass
    if words[-1].endswith(("password", "passwd", "passphrase")):
        return Secrecy.ALWAYS
    return Secrecy.NEVER


_PLAIN = re.compile(
    r"""\s* (?: (?:bearer|basic)? \s* (?:
        [01] | true | false | yes | no | on | off | none | null | nil | undefined | auto | empty
      | (?P<mask>[*.xX\u2022\u2026-])(?P=mask)* | [<\[]?(?:redacted|hidden|masked)[>\]]?     # hidden by somebody else
      | <redacted\ k=[0-9a-f]{8}\ h=[0-9a-f]{16}>
    ) )? \s*""",
    re.VERBOSE | re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"\s*(?:(?:[Bb]earer|[Bb]asic)\s+)?(?:\$(?:[a-z_]+|[A-Z_][A-Z0-9_]*|\d)|\$?\{{1,2}[^{}]*\}{1,2}|\$\([^()]*\)|%\w+%|%(?:\(\w+\))?s)\s*"
)
_KNOB = re.compile(r"[-+]?\.?\d[\d.,_:xeE+-]{0,24}[%a-zA-Z]{0,3}|[<\[].{0,64}[>\]]|\W{0,4}", re.DOTALL)
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@ ~-]*(?:/[\w.@ ~-]*)*")
_RANDOM = re.compile(r"[A-Za-z0-9+/=_.~:%-]{16,512}")
_STEP = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])")


def is_secret(secrecy: Secrecy, value: str) -> bool:
    """Whether a value under a name of this secrecy is to be hidden as a whole."""
    if secrecy is Secrecy.NEVER or _PLAIN.fullmatch(value):
        return False
    if secrecy is Secrecy.ALWAYS:
        return True
    if secrecy is Secrecy.IF_RANDOM:
        return looks_random(value)
    if is_path(value):
        return False
    return secrecy is Secrecy.UNLESS_PATH or not _KNOB.fullmatch(value)


def is_reference(value: str) -> bool:
    """Whether a value in a script or a template only says where the secret is: `$HF_TOKEN`, `{api_key}`, `%s`."""
    return bool(_REFERENCE.fullmatch(value))


def is_path(value: str) -> bool:
    """Whether a value names a file. A key in base64 may begin with a slash, so no part may look random."""
    return (
        value.startswith(("/", "~", ".")) and bool(_PATH.fullmatch(value)) and not looks_random(value.replace("/", ""))
    )


def looks_random(value: str) -> bool:
    """Whether a value looks like a key and not like a word, a number or a version."""
    if not _RANDOM.fullmatch(value) or value.isdigit():
        return False
    if len(set(value)) < 8:
        return False
    steps = len(_STEP.findall(value))
    if not any(c.isdigit() for c in value):
        return len(value) >= 24 and steps > 0.4 * len(value)  # NOTE: CamelCase has a third.
    return steps >= 3
