"""What acts when something starts does not act on a server that runs.

Persistence mode, module loading, read-ahead and download settings, the start method, the file system of the
weights: each makes a start slower and a step not at all. Where the time of a step was measured on a running server,
they are innocent of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import argument_changes, variable_changes
from envsnap.explain.story import Clue, Finding, View
from envsnap.explain.weights import FAIR, STRONG

CODE = "start_up_only"
NEEDS = ("gpu[].persistence_mode", "disk[].read_ahead_bytes", "storage[].file_system", "server[].argument[]",
         "worker[].env[]")  # fmt: skip

_READINGS = ("gpu[].persistence_mode", "disk[].read_ahead_bytes", "disk[].scheduler", "disk[].requests_count",
             "memory.dirty_*", "nvidia.gpu[].runtime_d3")  # fmt: skip
_ARGUMENTS = ("load_format", "download_dir", "model_loader_extra_config", "skip_server_warmup", "watchdog_timeout",
              "weight_loader_*", "num_loader_threads", "*_checksum", "enable_p2p_check")  # fmt: skip
_VARIABLES = ("CUDA_MODULE_LOADING", "HF_HUB_*", "HF_HOME", "HF_DATASETS_*", "TRANSFORMERS_CACHE", "SAFETENSORS_*",
              "*_DOWNLOAD_*", "MAX_JOBS", "NVCC_*")  # fmt: skip


def tell(view: View) -> Iterator[Finding]:
    """Yield what cannot have slowed a step of a running server."""
    serving = view.slow.has("worker[].argv") or view.slow.has("server[].engine")
    if not serving or not view.symptom.measured or view.symptom.step_moved is not True:
        return
    found = [*view.changed(*_READINGS), *argument_changes(view, *_ARGUMENTS), *variable_changes(view, *_VARIABLES)]
    if found:
        yield Clue("It acts when the server starts; a step of one that runs does not feel it.", -FAIR, tuple(found))
    files = view.changed("storage[].medium", "storage[].file_system", "storage[].options", "storage[].disk")
    if files:
        yield Clue("Files are read at the start, and a step reads none.", -STRONG, tuple(files))
