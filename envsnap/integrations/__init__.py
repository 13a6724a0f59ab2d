"""What envsnap runs inside other people's processes: their own record of themselves.

Nothing happens unless the environment variable ENVSNAP_RECORD names a directory. Then each process that loads this
writes there, for its owner alone, what cannot be seen as well from outside: see `recorder`. It never raises into the
process that it is in, and runs nothing on that process's own thread but at the moment when it is ready.

Two ways lead here: entry points that an engine loads by itself (`engines`), and a directory to put first on
PYTHONPATH (`site_directory`). Of the rest of envsnap only the rules of redaction are used, from the first record on.
"""

import os

VARIABLE = "ENVSNAP_RECORD"


def asked_for() -> str:
    """The directory where records are asked for; empty: nowhere, and nothing here does anything."""
    return "" if os.environ.get("ENVSNAP_DISABLE") == "1" else os.environ.get(VARIABLE, "")


def site_directory() -> str:
    """What to put first on PYTHONPATH, so that every Python process started from there records itself."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
