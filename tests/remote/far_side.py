"""A far side that begins as it should, and then goes wrong: far_side.py HOW sh."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
import zlib
from typing import Any


def packed(answers: Any) -> bytes:
    return deflated(json.dumps(answers).encode())


def deflated(data: bytes) -> bytes:
    return base64.b64encode(zlib.compress(data, 1))


def answer(how: str, requests: int) -> bytes:
    """What stands behind the number of a batch of so many requests."""
    if how == "garbage":
        return b"not base64 at all!"
    if how == "no list":
        return packed({"ok": 1})
    if how == "too few":
        return packed([])
    if how == "cut":
        return packed([["ok", "x" * 1000]] * requests)[:-24]
    if how == "deep":
        return deflated(b"[" * 1_000_000)
    if how == "bomb":
        return deflated(b"[" + b" " * (200 << 20) + b"]")
    if how == "odd":
        return packed([[None, 1, [], ["ok"], ["missing", "why"]][number % 5] for number in range(requests)])
    if how == "hostile":
        return packed([["ok", {"a": [1e400, None]}]] * requests)
    raise ValueError(how)


def main() -> None:
    how = sys.argv[1]
    start = sys.stdin.buffer.readline().decode()
    found = re.search(r"' (\w{12}) (\w{12});", start)
    assert found
    print(f"\n{found[1]}{found[2]} pipe linux x86_64 3.11.2", flush=True)
    sys.stdin.buffer.readline()
    for line in sys.stdin.buffer:
        number, requests = json.loads(line)
        if how == "mute":
            time.sleep(60)
        elif how == "dies":
            print("Connection to gpu7 closed by remote host.", file=sys.stderr)
            sys.exit(255)
        elif how == "prompt":
            sys.stdout.buffer.write(b"[sudo] password for root:\n")
        else:
            sys.stdout.buffer.write(b"%d %s\n" % (number, answer(how, len(requests))))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
