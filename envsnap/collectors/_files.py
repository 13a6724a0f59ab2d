"""Facts that the kernel publishes as small files: read many in one batch, turn each text into a canonical value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from envsnap.host import Host, value_of
from envsnap.keys import Key
from envsnap.reading import Found, Json, Missing, Unavailable, Value, Why, attempt

Parse = Callable[[str], Json]

_NO_VALUE = {"", "max", "unlimited", "none", "n/a", "unknown", "<unknown>", "<unsupported>", "<not supported>"}
_CPU_LIST = re.compile(r"(\d+(-\d+)?(,\d+(-\d+)?)*)?\Z")


@dataclass(frozen=True)
class FileFact:
    """A key, the file that holds its value, and what makes the value of the file's text."""

    key: Key
    file: str
    parse: Parse = str


class Files:
    """Texts of files, without surrounding white space."""

    def __init__(self, found: Mapping[str, Mapping[str, Found]]) -> None:
        self._found = found
        self._by_path = {path: reading for group in found.values() for path, reading in group.items()}

    def __getitem__(self, path: str) -> Found:
        """The reading of a path; what no pattern found is absent."""
        return self._by_path.get(path) or Unavailable(Why.ABSENT, f"no {path}")

    def value(self, path: str, parse: Parse = str) -> Found:
        """The value that `parse` makes of a file, or why there is none."""
        return parsed(self[path], parse)

    def text(self, path: str) -> str:
        """A file's text, empty where it cannot be read: for what only steers where to look further."""
        found = self[path]
        return str(found.value) if isinstance(found, Value) else ""

    def matching(self, pattern: str) -> list[tuple[tuple[str, ...], Found]]:
        """What each `*` or `[0-9]*` of a pattern that was asked for stood for, and the reading; numbers in order.

        Raises: Missing or HostError where the machine could not say what matches.
        """
        group = self._found.get(pattern, {})
        if pattern in group:
            value_of(group[pattern])
        wild = _wildcards(pattern)
        matches = [(wild.fullmatch(path), found) for path, found in group.items()]
        return sorted(((match.groups(), found) for match, found in matches if match), key=_in_order)

    def absent(self, pattern: str, branch: str) -> Iterator[tuple[str, Found]]:
        """Where a pattern found nothing: all paths below `branch` are unavailable, not unset."""
        if not self._found.get(pattern):
            yield branch, Unavailable(Why.ABSENT, f"no {pattern}")


@lru_cache(maxsize=256)
def _wildcards(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\[0-9\]\*|\*)", pattern)
    meanings = {"[0-9]*": r"(\d+)", "*": "([^/]*)"}
    return re.compile("".join(meanings.get(part) or re.escape(part) for part in parts))


def read_files(host: Host, paths: Iterable[str]) -> Files:
    """Read files, and all files that match shell patterns, in one batch."""
    return Files(host.read_matching(paths))


def readings(files: Files, facts: Iterable[FileFact]) -> Iterator[tuple[str, Found]]:
    """The readings of facts that have a file each."""
    for fact in facts:
        yield fact.key.pattern, files.value(fact.file, fact.parse)


def parsed(found: Found, parse: Parse) -> Found:
    """A reading with its text turned into a value."""
    return attempt(parse, found.value) if isinstance(found, Value) else found


def _in_order(item: tuple[tuple[str, ...], Found]) -> list[tuple[int, str]]:
    """A sort key by which cpu2 comes before cpu10."""
    return [(int(group), "") if group.isdecimal() else (-1, group) for group in item[0]]


# -- what texts mean ------------------------------------------------------------------------------------------


def stated(text: str) -> str:
    """Text that says something. Raises: Missing where it is empty."""
    if not text:
        raise Missing(Why.NOT_SUPPORTED, "it is empty")
    return text


def integer(text: str) -> int:
    """A whole number. Raises: Missing for a word that stands for none, ValueError for anything else."""
    if text.strip().lower() in _NO_VALUE:
        raise Missing(Why.NOT_SUPPORTED, f"it says {text.strip()!r}")
    return int(text)


def natural(text: str) -> int:
    """A whole number from 0. Raises: Missing also for a negative one, which stands for *unknown* or *none*."""
    number = integer(text)
    if number < 0:
        raise Missing(Why.NOT_SUPPORTED, f"it says {number}")
    return number


def hexadecimal(text: str) -> int:
    """A number written as 0x1f or 1f."""
    return int(text, 16)


def megahertz(text: str) -> int | float:
    """MHz of a number of kHz."""
    khz = natural(text)
    return khz // 1000 if khz % 1000 == 0 else khz / 1000


def times(factor: int) -> Callable[[str], int]:
    """A parser of numbers counted in `factor` units."""
    return lambda text: natural(text) * factor


def switch(text: str) -> bool:
    """On or off in any of the kernel's ways to say it."""
    word = text.lower()
    if word in ("1", "y", "on", "enabled", "true"):
        return True
    if word in ("0", "n", "off", "disabled", "false"):
        return False
    raise Missing(Why.NOT_SUPPORTED, f"it says neither on nor off: {text[:80]!r}")


def chosen(text: str) -> str:
    """The bracketed one of several words, `always [madvise] never`, or the only one."""
    word, bracket, _ = text.partition("[")[2].partition("]")
    if word and bracket:
        return word
    if len(text.split()) != 1:
        raise Missing(Why.NOT_SUPPORTED, f"it chooses none: {text[:80]!r}")
    return text


def words(text: str) -> list[str]:
    """Words, sorted."""
    return sorted(text.split())


def integers(text: str) -> list[int]:
    """Whole numbers in the order given."""
    return [int(word) for word in text.split()]


def cpu_list(text: str) -> str:
    """A list of CPUs or nodes as the kernel writes it, `0-3,8`; empty when there is none."""
    plain = "" if text == "(null)" else text
    if not _CPU_LIST.match(plain):
        raise ValueError(f"not a list of CPUs: {text[:80]!r}")
    return plain


def cpu_count(text: str) -> int:
    """How many CPUs a list has."""
    spans = [span.split("-") for span in cpu_list(text).split(",") if span]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def cpu_ranges(cpus: Iterable[int]) -> str:
    """Numbers as the kernel writes a list: [0, 1, 2, 8] is `0-2,8`."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in spans)


def pci_address(link: str) -> str:
    """The last PCI device in a link of /sys/class. Raises: Missing for what hangs on no PCI device."""
    found = re.findall(r"/([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", link)
    if not found:
        raise Missing(Why.ABSENT, "it is no PCI device")
    return str(found[-1])
