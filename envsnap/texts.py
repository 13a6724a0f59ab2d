"""Long texts (patches) that the documents of a store share: kept once, by the hash of their content."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from pathlib import Path

from envsnap.jsonfile import MAX_FILE_BYTES, SnapshotError, load_json, write_atomically
from envsnap.reading import Json

FOLDER = "texts"
"""Its place in a store."""

LONG_TEXT = 16 << 10
_NAME = "envsnap.text"
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def without_long_texts(document: Json, folder: Path) -> Json:
    """The document with each long string replaced by its hash, the text written to `folder`. Raises: OSError."""
    if isinstance(document, dict):
        return {name: without_long_texts(value, folder) for name, value in document.items()}
    if isinstance(document, list):
        return [without_long_texts(value, folder) for value in document]
    if isinstance(document, str) and len(document) > LONG_TEXT:
        data = document.encode("utf-8", "surrogatepass")
        name = hashlib.sha256(data).hexdigest()
        path = folder / f"{name}.gz"
        if not path.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(path, gzip.compress(data, 5, mtime=0))
        return {_NAME: name}
    return document


def with_long_texts(document: Json, folder: Path) -> Json:
    """The document as it was before `without_long_texts`. Raises: SnapshotError."""
    if isinstance(document, list):
        return [with_long_texts(value, folder) for value in document]
    if not isinstance(document, dict):
        return document
    name = document.get(_NAME)
    if isinstance(name, str) and len(document) == 1 and _SHA256.match(name):
        return _text(folder / f"{name}.gz")
    return {key: with_long_texts(value, folder) for key, value in document.items()}


def load_document(source: str | Path) -> Json:
    """The JSON document in a file, with the long texts that a run in a store refers to. Raises: SnapshotError."""
    document = load_json(source)
    if isinstance(document, dict) and document.get("format") == "envsnap.run" and str(source) != "-":
        return with_long_texts(document, Path(source).resolve().parent.parent / FOLDER)
    return document


def _text(path: Path) -> str:
    try:
        inflate = zlib.decompressobj(31)
        data = inflate.decompress(path.read_bytes(), MAX_FILE_BYTES)
        if not inflate.eof:
            raise SnapshotError(f"The text {path} is cut short or larger than {MAX_FILE_BYTES >> 20} MiB.")
        return data.decode("utf-8", "surrogatepass")
    except (OSError, zlib.error, UnicodeDecodeError) as error:
        raise SnapshotError(f"A text that the run refers to is missing from {path.parent}, or damaged.") from error
