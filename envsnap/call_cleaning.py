"""Recorded calls without secrets, and with stand-ins for what names a person, a machine or a place in a network.

The same replacement is made in requests and in answers, since answers are what later requests are made of: what a
replay asks must be what was recorded.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable

from envsnap.host import Answer, Request
from envsnap.reading import Json
from envsnap.redact import HASH, Redactor
from envsnap.scope import Scope
from envsnap.standins import StandIns, everywhere, strings_of

Call = tuple[Request, Answer]

_IDENTIFIER_FILES = ("/machine-id", "_serial", "/serial", "/hostid", "/wwid", "/product_uuid")
_TABLES = {
    "/proc/net/route": re.compile(r"(?<=\t)[0-9A-F]{8}(?=\t[0-9A-F]{8}\t)|(?<=\t[0-9A-F]{8}\t)[0-9A-F]{8}(?=\t)"),
    "/proc/net/tcp": re.compile(r"\b[0-9A-F]{8}(?=:[0-9A-F]{4}\b)"),
    "/proc/net/tcp6": re.compile(r"\b[0-9A-F]{32}(?=:[0-9A-F]{4}\b)"),
    "/proc/net/if_inet6": re.compile(r"\b[0-9a-f]{32}\b"),
    "/proc/net/ipv6_route": re.compile(r"\b[0-9a-f]{32}\b"),
}
"""Tables in which the kernel writes addresses as bare hexadecimal digits: path -> where they stand.

In upper case they are words of a little-endian machine.
"""


def cleaned(calls: list[Call], scope: Scope, redactor: Redactor, known: StandIns) -> tuple[list[Call], Scope]:
    """Calls and scope without secrets and with stand-ins."""

    def without_secrets(value: Json) -> Json:
        return redactor.clean(everywhere(value, lambda text: _fitted(text, redactor.clean) if "\0" in text else text))

    def with_stand_ins(value: Json) -> Json:
        return everywhere(value, lambda text: _fitted(text, with_stand_ins) if "\0" in text else words(text))

    def words(text: str) -> str:
        return known.text(str(redactor.sweep(text)))

    calls = [_mapped(*call, without_secrets) for call in calls]
    for request, answer in calls:
        _learn(known, request, answer)
    calls = [_mapped(request, _tables(known, request, answer), with_stand_ins) for request, answer in calls]
    return calls, Scope.from_json(with_stand_ins(redactor.clean(scope.as_json())))


def _mapped(request: Request, answer: Answer, clean: Callable[[Json], Json]) -> Call:
    operation, value = request[0], answer[1] if answer[0] == "ok" else None
    if operation == "within" and isinstance(value, list):
        inner = [_mapped(r, a, clean) for r, a in zip(request[2], value)]
        return [*request[:2], [r for r, _ in inner], *request[3:]], ["ok", [a for _, a in inner]]
    # NOTE: each part by itself: a list would be read as a command line.
    request = [clean(part) for part in request]
    if operation == "bytes" and isinstance(value, str):
        return request, ["ok", _binary(value, clean)]
    if operation == "memory" and isinstance(value, list):
        return request, ["ok", [part and _binary(part, clean) for part in value]]
    return request, [answer[0], *(clean(part) for part in answer[1:])]


def _binary(encoded: str, clean: Callable[[Json], Json]) -> str:
    text = str(clean(base64.b64decode(encoded).decode("utf-8", "surrogateescape")))
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")


def _fitted(text: str, clean: Callable[[Json], Json]) -> str:
    """What stands between NULs (a command line, an environment, memory), cleaned and each part as long as it was.

    Offsets in memory, and the check whether a process wrote its title over its environment, depend on lengths.
    """
    parts = text.split("\0")
    for index, (part, fresh) in enumerate(zip(parts, clean(list(parts)))):
        if fresh != part:
            size = len(part.encode("utf-8", "surrogateescape"))
            # NOTE: a hash that is cut would be hashed anew on replay; stars are not.
            data = HASH.sub("****", fresh).encode("utf-8", "surrogateescape")
            parts[index] = data[:size].ljust(size, b"*").decode("utf-8", "surrogateescape")
    return "\0".join(parts)


def _learn(known: StandIns, request: Request, answer: Answer) -> None:
    path = request[1] if len(request) > 1 and isinstance(request[1], str) else ""
    if answer[0] == "ok" and isinstance(answer[1], str):
        if path.endswith(_IDENTIFIER_FILES):
            known.learn_identifier(answer[1].strip())
        if path == "/etc/passwd":
            _learn_users(known, answer[1])
        if request[0] == "ipv4_address":
            known.learn_address(answer[1])
        for digits in _TABLES[path].findall(answer[1]) if path in _TABLES else ():
            known.learn_address(_address(digits, _is_upper(path)))
    for text in strings_of([request, answer]):
        known.learn_from_text(text)


def _learn_users(known: StandIns, passwd: str) -> None:
    """The people among the users; the system's own names say nothing."""
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) == 7 and fields[2].isdigit() and 1000 <= int(fields[2]) < 65000:
            known.learn_user(fields[0])
            known.learn_person(fields[4].partition(",")[0])
            known.learn_home(fields[5])


def _tables(known: StandIns, request: Request, answer: Answer) -> Answer:
    """An answer in which addresses that are written as bare digits are replaced."""
    path = request[1] if len(request) > 1 and isinstance(request[1], str) else ""
    if path not in _TABLES or answer[0] != "ok" or not isinstance(answer[1], str):
        return answer
    upper = _is_upper(path)
    return ["ok", _TABLES[path].sub(lambda match: _digits(known.text(_address(match[0], upper)), upper), answer[1])]


def _is_upper(path: str) -> bool:
    return "A-F" in _TABLES[path].pattern


def _address(digits: str, upper: bool) -> str:
    data = bytes.fromhex(digits)
    return str(ipaddress.ip_address(_swapped(data) if upper else data))


def _digits(address: str, upper: bool) -> str:
    data = ipaddress.ip_address(address).packed
    return _swapped(data).hex().upper() if upper else data.hex()


def _swapped(data: bytes) -> bytes:
    return b"".join(data[i : i + 4][::-1] for i in range(0, len(data), 4))
