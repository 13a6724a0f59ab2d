"""SGLang /server_info.

Seen: the JSON (of /get_server_info too) of 0.5.16 with one and two ranks on H200, and on a CPU.

Untested: vLLM's /server_info, which tells anything only under VLLM_SERVER_DEV_MODE=1.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.collectors._server_sglang import readings
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.reading import Json, Value


def recognise(text: Text) -> Iterator[range]:
    """Documents that hold arguments beside the states of the schedulers."""
    return (lines for lines, document in text.documents.items() if is_server_info(document))


def is_server_info(document: Json) -> bool:
    """Whether a document is such an answer."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("internal_states"), list)
        and "model_path" in document
        and "tp_size" in document
    )


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `server[0]`."""
    put(sheet, lines, text.documents[lines])


def put(sheet: Sheet, lines: range, document: Json) -> None:
    """Readings of such a document, which takes these lines."""
    sheet.skip(*lines)
    sheet.value(lines.start, "server[0].engine", "sglang")
    for rest, found in readings(document):
        if isinstance(found, Value):
            sheet.value(lines.start, f"server[0]{rest}", found.value)
    version = document.get("version")
    sheet.version = version if isinstance(version, str) else ""
