"""What envsnap runs inside other people's processes: their own record of themselves.

Nothing happens unless the environment variable ENVSNAP_RECORD names a directory. Then each process that loads this
writes there, for its owner alone, what cannot be seen as well from outside: see `recorder`. It never raises into the
process that it is in, and runs nothing on that process's own thread but at the moment when it is ready.

    ENVSNAP_RECORD                   the directory; made for its owner alone where it is missing
    ENVSNAP_RECORD_CODE              trees whose code is watched line by line, separated by colons, or `off` (`trees`);
                                     without it on Python 3.13 and later, where it costs under 1 %
    ENVSNAP_RECORD_SETTLE_SECONDS    10: how long a process runs before it is recorded, if nobody says that it is ready
    ENVSNAP_RECORD_INTERVAL_SECONDS  5: how often a record is renewed

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
