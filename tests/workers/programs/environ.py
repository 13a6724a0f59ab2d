"""A process that does what its arguments say, prints the environment that libc then holds, and waits.

Standard library alone, any Python 3: it runs under every interpreter that the tests find. Arguments: `set` and its
like change the environment; `title:TEXT` retitles; `spawn`, `fork` and `forkserver` do the rest in children.
"""

import ctypes
import json
import multiprocessing
import os
import sys
import time
from typing import Any


def libc_environment() -> dict[str, str]:
    """What getenv would find, by the array itself; os.environ would not show what C code did."""
    # NOTE: dlsym finds the copy in the executable where there is one, as libc does.
    array = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    found: dict[str, str] = {}
    i = 0
    while array[i] is not None:
        name, _, value = array[i].decode("utf-8", "surrogateescape").partition("=")
        found.setdefault(name, value)
        i += 1
    return found


def act(actions: list[str], tag: str = "") -> None:
    """Do what the actions say, then print and wait."""
    libc = ctypes.CDLL(None)
    for action in actions:
        if action == "set":
            os.environ["BY_PYTHON"] = "os.environ"
            os.environ["CHANGED"] = "after"
            os.environ.pop("REMOVED", None)
            os.putenv("BY_PUTENV", "os.putenv")
            libc.setenv(b"BY_C", b"setenv", 1)
            libc.unsetenv(b"REMOVED_BY_C")
        elif action == "many":
            for i in range(120 - len(os.environ)):
                os.environ["VARIABLE_%03d" % i] = "value %d" % i * (1 + i % 7)
        elif action.startswith("title:"):
            import setproctitle

            setproctitle.setproctitle(action[len("title:") :])
        elif action == "rank":
            os.environ["RANK"] = tag
    print(json.dumps({"pid": os.getpid(), "tag": tag, "environ": libc_environment()}), flush=True)
    time.sleep(600)


def main() -> None:
    """Run here, or in two children (or `spawn:N`) started by the method named first."""
    method, _, count = sys.argv[1].partition(":")
    actions = sys.argv[2:]
    if method == "here":
        act(actions)
    context: Any = multiprocessing.get_context(method)
    children = [context.Process(target=act, args=(actions, str(i)), daemon=True) for i in range(int(count or 2))]
    for child in children:
        child.start()
    for child in children:
        child.join()


if __name__ == "__main__":
    main()
