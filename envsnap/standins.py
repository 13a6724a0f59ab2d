"""Stand-ins for what names a person, a machine or a place in a network: alike wherever the same thing stands.

A stand-in has the form of what it stands for (a UUID stays one, an address becomes one of those set aside for
documentation), so that whoever parses it still can, and two that were the same still are.

What has a form of its own (UUIDs, hardware addresses, mail addresses, IPv6 addresses) is found wherever it stands.
Names and IPv4 addresses are first *learned* where it is certain what they are, and then replaced everywhere: a user
may be called like a package, and `10.3.9.90` is a version of cuRAND as well.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator

from envsnap.reading import Json

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_MAC = r"(?:[0-9a-fA-F]{2}:){5}(?:(?:[0-9a-fA-F]{2}:){14}|(?:[0-9a-fA-F]{2}:){2})?[0-9a-fA-F]{2}"
_MAIL = r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,5}[A-Za-z]{2,24}"
_IPV6 = (
    r"(?:f[cdef][0-9a-f]{2}|[23][0-9a-f]{3}|0{0,4}:(?:0{0,4}:){0,4}ffff):[0-9a-fA-F:]{1,36}(?:\d{1,3}(?:\.\d{1,3}){3})?"
)
_FORMS = re.compile(
    rf"(?<![0-9a-zA-Z])(?:(?P<uuid>{_UUID})|(?<![:.])(?P<mac>{_MAC})(?!:)|(?<![:.@+-])(?P<mail>{_MAIL})"
    rf"|(?<![:.])(?P<ipv6>{_IPV6}))(?![0-9a-zA-Z])",
    re.IGNORECASE,
)
_FORM_HINT = re.compile(r"[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-|[0-9a-fA-F]:[0-9a-fA-F:]{2}|@", re.ASCII)

_IPV4 = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}"
_IPV4_HINT = re.compile(r"\d\.\d{1,3}\.\d{1,3}\.\d", re.ASCII)
_IPV4_PLACES = re.compile(
    rf"(?:(?:(?:://|@|\b(?:addr|address|host|hosts|ip|inet|peer|gateway|via|nameserver|server|from|to)\b[ =:'\"(\[]*)"
    rf"(?P<after>{_IPV4}))|(?<![\w.=-])(?P<before>{_IPV4})(?=:\d{{2,5}}(?!\d)|/\d{{1,2}}(?![\w.])))(?![\w.]|-\d)",
    re.IGNORECASE,
)
_HOME = re.compile(r"/(?:home|Users)/([A-Za-z_][\w.-]{0,31})")
_PERSON = re.compile(r"\buser\.name(?:\n|[ ]?=[ ]?)([^\n\0]{2,64})")
_AUTHOR = re.compile(
    r"(?:\b(?!author\b|committer\b|tagger\b|[0-9a-f]{40}\b|[0-9a-f]{64}\b)[^\W\d_][\w.'-]*[ ]){1,4}(?=<[^<>\s@]{1,64}@)"
)

COMMON = frozenset(
    """root user users ubuntu debian admin nobody guest default daemon system service runner jovyan vscode vagrant
    centos fedora rocky ec2-user azureuser opc docker container containers worker workers server localhost local
    sglang vllm nvidia torch pytorch python python3 linux kernel memory model models data test tests build home
    shared public work workspace cluster login compute node host main master none unknown""".split()  # noqa: SIM905
)
"""Names that many machines have: they identify nobody, and as words they mean something else."""


class StandIns:
    """What was learned, and what stands for it.

    With `keep_length` stand-ins of names are as long as the names, where these are long enough.
    """

    def __init__(self, keep_length: bool = False) -> None:
        self._keep_length = keep_length
        self._words: dict[str, str] = {}
        self._whole: dict[str, str] = {}
        self._found: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._pattern: re.Pattern[str] | None = None

    # -- learning -------------------------------------------------------------------------------------------

    def learn_user(self, name: str) -> None:
        """A user's name."""
        self._learn_name(name, "user")

    def learn_home(self, path: str) -> None:
        """A home directory; its last part is a user's name as a rule."""
        path = path.rstrip("/")
        if not path.startswith("/") or path == "/root":
            return
        name = path.rsplit("/", 1)[-1]
        self.learn_user(name)
        if not _HOME.fullmatch(path) or name in COMMON:
            self._add(path, lambda n: "/home/" + self._words.get(name, f"user{n}"), "home")

    def learn_person(self, name: str) -> None:
        """A person's name and surname; one word alone may be any word."""
        if " " in name:
            self._add(name, lambda n: f"user{n}", "author")

    def learn_host(self, name: str) -> None:
        """A host's name, with or without its domain."""
        first, _, domain = name.partition(".")
        self._learn_name(first, "host")
        if domain.count(".") and not _is_ipv4(name):
            self._add(domain, lambda n: f"domain{n}.example", "domain")

    def learn_identifier(self, text: str) -> None:
        """A serial number, machine id or the like."""
        if len(text) >= 6 and any(c.isdigit() for c in text) and not _FORMS.fullmatch(text):
            self._add(text, lambda n: _alike(text, n), "identifier")

    def learn_address(self, text: str) -> None:
        """An IPv4 address; those that mean the same everywhere are no secret."""
        if _is_ipv4(text) and not text.startswith(("127.", "0.", "255.", "192.0.2.", "198.51.100.", "203.0.113.")):
            network, _, last = text.rpartition(".")
            number = self._number("network", network)
            blocks = ("192.0.2", "198.51.100", "203.0.113")
            self._words[text] = f"{blocks[number - 1] if number <= 3 else f'198.18.{number % 256}'}.{last}"
            self._pattern = None

    def learn_from_text(self, text: str) -> None:
        """Names and addresses that stand in a text where it is certain what they are."""
        if _IPV4_HINT.search(text):
            for match in _IPV4_PLACES.finditer(text):
                self.learn_address(match["after"] or match["before"])
        if "/home/" in text or "/Users/" in text:
            for name in _HOME.findall(text):
                self.learn_user(name)
        if "@" in text or "user.name" in text:
            for match in (*_AUTHOR.finditer(text), *_PERSON.finditer(text)):
                self.learn_person(match[match.lastindex or 0].strip())

    def _learn_name(self, name: str, kind: str) -> None:
        if not name or name.lower() in COMMON or not name.strip("0123456789."):
            return
        distinctive = len(name) >= 4 and (len(name) >= 6 or any(c.isdigit() or c in "-_" for c in name))
        if distinctive:
            self._add(name, lambda n: f"{kind}{n}", kind)
        else:  # NOTE: a host called `vm` must not cost /proc/sys/vm its name; a home directory shows whose it is.
            self._whole.setdefault(name, f"{kind}{self._number(kind, name)}")
            self._pattern = None

    def _add(self, original: str, make: Callable[[int], str], kind: str) -> None:
        if original not in self._words:
            fresh = make(self._number(kind, original))
            self._words[original] = fresh.ljust(len(original), "x") if self._keep_length else fresh
            self._pattern = None

    def _number(self, kind: str, original: str) -> int:
        key = f"{kind}\0{original}"
        if key not in self._counts:
            self._counts[key] = sum(k.startswith(f"{kind}\0") for k in self._counts) + 1
        return self._counts[key]

    # -- replacing ------------------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """The text with everything replaced that was learned or has a form of its own."""
        if self._whole and (bare := text.strip()) in self._whole:
            return text.replace(bare, self._whole[bare])
        if "@" in text and "<" in text:
            text = _AUTHOR.sub(lambda m: f"user{self._number('author', m[0].strip())} ", text)
        if _FORM_HINT.search(text):
            text = _FORMS.sub(self._form, text)
        if self._pattern is None:
            self._pattern = self._compile()
        return self._pattern.sub(lambda m: self._words.get(m[0]) or m[1] + self._whole[m[2]], text)

    def _compile(self) -> re.Pattern[str]:
        addresses = self.addresses
        words = _any_of(word for word in self._words if word not in addresses)
        # A short name counts in a home directory alone.
        return re.compile(
            rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])|(?<![\w.])(?:{_any_of(addresses)})(?!\w|\.\d)"
            rf"|(/(?:home|Users)/)({_any_of(self._whole)})(?![A-Za-z0-9])"
        )

    def _form(self, match: re.Match[str]) -> str:
        original = match[0]
        if original not in self._found:
            self._found[original] = self._make(match.lastgroup or "", original)
        return self._found[original]

    def _make(self, kind: str, original: str) -> str:
        if kind == "uuid":
            fresh = f"00000000-0000-4000-8000-{self._number(kind, original.lower()):012x}"
            return original if not original.strip("0-") else fresh
        if kind == "mac":
            if not original.strip("0:") or not original.strip("fF:"):
                return original
            count = (len(original) + 1) // 3
            return ":".join(["02", *["00"] * (count - 3), *_hex_pairs(self._number(kind, original.lower()))])
        if kind == "mail":
            return original if original.startswith("git@") else f"user{self._number(kind, original)}@example.com"
        return self._ipv6(original)

    def _ipv6(self, original: str) -> str:
        try:
            address = ipaddress.IPv6Address(original)
        except ValueError:
            return original
        if address.is_multicast or address == ipaddress.IPv6Address("fe80::"):
            return original
        if address.ipv4_mapped:
            self.learn_address(str(address.ipv4_mapped))
            inner = self._words.get(str(address.ipv4_mapped), str(address.ipv4_mapped))
            fresh = ipaddress.IPv6Address(f"::ffff:{inner}")
        else:
            number = self._number("ipv6", address.exploded)
            fresh = ipaddress.IPv6Address(f"fe80::{number:x}" if address.is_link_local else f"2001:db8::{number:x}")
        return fresh.exploded if len(original) == 39 else str(fresh)

    @property
    def addresses(self) -> dict[str, str]:
        """Every IPv4 address that was learned, and its stand-in."""
        return {original: fresh for original, fresh in self._words.items() if _is_ipv4(original)}


def everywhere(value: Json, replace: Callable[[str], str]) -> Json:
    """A JSON value with every string in it replaced, names of fields included."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, dict):
        return {replace(name): everywhere(inner, replace) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [everywhere(inner, replace) for inner in value]
    return value


def strings_of(value: Json) -> Iterator[str]:
    """Every string in a JSON value, names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings_of(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from strings_of(inner)


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or r"(?!)"


def _hex_pairs(number: int) -> Iterable[str]:
    return f"{number >> 8 & 0xFF:02x}", f"{number & 0xFF:02x}"


def _is_ipv4(text: str) -> bool:
    return bool(re.fullmatch(_IPV4, text))


def _alike(text: str, number: int) -> str:
    """Text of the same length and kind of characters that says nothing but `number`."""
    plain = "".join("0" if c.isdigit() else "x" if c.islower() else "X" if c.isupper() else c for c in text)
    if not re.search(r"[^0-9a-fA-F:-]", text):
        plain = re.sub(r"[0-9a-fA-F]", "0", text)
    digits = str(number)
    return plain[: -len(digits)] + digits
