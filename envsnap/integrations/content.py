"""What a record holds, put together; each part on its own, so that one that fails costs itself alone."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from envsnap.integrations import environment, files, frameworks, process
from envsnap.integrations.plain import describe, plain
from envsnap.integrations.secrets import Cleaner

if TYPE_CHECKING:
    from envsnap.integrations.recorder import Recorder

FORMAT = "envsnap.worker_record"

# Version history. New fields do not change it; renaming, retyping or removing one does.
#   1  first version
VERSION = 1


def record(recorder: Recorder) -> tuple[str, bytes]:
    """The file's name and content."""
    content = _frame(recorder)
    cleaner = recorder.cleaner = recorder.cleaner or Cleaner(recorder.directory)
    failed = {part: cleaner.text(why) for part, why in recorder.failed.items()}
    parts = {
        "process": lambda: cleaner.clean(process.process()),
        "environment": lambda: cleaner.environment(environment.views()),
        "python": process.python,
        "limits": process.limits,
        "affinity": process.affinity,
        "torch": lambda: {**frameworks.torch(), **recorder.own_thread},
        "engine": lambda: cleaner.clean(plain(recorder.engine())),
        "code": lambda: recorder.code.loaded(recorder.loaded_at_start),
        "reach": recorder.reach.found,
        "stacks": recorder.stacks.found,
    }
    for name, read in parts.items():
        try:
            content[name] = read()
        except Exception as error:
            failed[name] = cleaner.text(describe(error))
    content["failed"] = failed
    return _file_name(content), _dump(content)


def failure(recorder: Recorder, error: Exception) -> tuple[str, bytes]:
    """The same for a record that could not be made or written."""
    # NOTE: nobody has cleaned it, so only what the system said of a file is told, and of any other error its type.
    why = describe(error) if isinstance(error, (OSError, files.Refused)) else type(error).__name__
    content = {**_frame(recorder), "process": process.identity(), "failed": {"record": why}}
    return _file_name(content), _dump(content)


def state(recorder: Recorder) -> Any:
    """Equal to the last one where a new record would say the same. Cheap: it is asked for every few seconds."""
    try:
        engine = recorder.engine()
    except Exception as error:
        engine = {"failed": describe(error)}
    seen = recorder.reach.count, recorder.stacks.told
    return environment.views(), len(sys.modules), seen, engine, recorder.ready_at, process.title()


def _frame(recorder: Recorder) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "moment": recorder.moment,
        "written_at": time.time(),
        "watched_since": recorder.started_at,
        "ready_at": recorder.ready_at,
        "ready_by": recorder.ready_by,
        "interval_seconds": recorder.interval_seconds,
        "cpu_seconds": round(recorder.cpu_seconds, 4),
    }


def _file_name(content: dict[str, Any]) -> str:
    found = content.get("process") or process.identity()
    # NOTE: the start time tells processes of the same number apart, on nodes that share the directory too.
    return "%s-%d-%d.json" % (process.file_word(), os.getpid(), found["start_ticks"])


def _dump(content: dict[str, Any]) -> bytes:
    data = json.dumps(content, separators=(",", ":")).encode("ascii")
    for bulky in ("stacks", "reach", "code"):
        if len(data) > files.MAX_BYTES and bulky in content:
            del content[bulky]
            content["failed"][bulky] = "left out, since the record would have been too large"
            data = json.dumps(content, separators=(",", ":")).encode("ascii")
    return data
