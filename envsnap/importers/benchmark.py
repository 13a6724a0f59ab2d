"""benchmark results (JSON, JSONL).

Seen: SGLang's serving benchmark 0.5.16; the other tools that `envsnap run` reads as their readers say. A line is a
repetition; what SGLang embeds of its server is read as /server_info.

Untested: vLLM's, beyond its source.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.importers import server_info
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.reading import Json
from envsnap.runs.metrics import NoMetrics
from envsnap.runs.readers import Reader, readers


def recognise(text: Text) -> Iterator[range]:
    """Documents that some reader of benchmarks knows."""
    return (lines for lines, document in text.documents.items() if _reader(document))


def _reader(document: Json) -> Reader | None:
    if not isinstance(document, dict) or server_info.is_server_info(document):
        return None
    return next((reader for reader in readers() if reader.recognise(document, "")), None)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """What was measured, and the server that it names."""
    document = text.documents[lines]
    reader = _reader(document)
    sheet.skip(*lines)
    try:
        if reader:
            sheet.figures(lines.start, reader.read(document, ""))
    except NoMetrics as error:
        sheet.notes.append(str(error).rstrip(".").replace("The benchmark", "it", 1))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        sheet.notes.append("it holds no usable figure")
    if server_info.is_server_info(document.get("server_info")):
        server_info.put(sheet, lines, document["server_info"])
