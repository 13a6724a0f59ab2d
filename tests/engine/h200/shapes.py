"""Models and loads: weights are made up at load, so that any size is only a configuration."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks.planted.bench import Asked

TARGET, DRAFT = "target", "draft"
TOKENS = 8192
"""What a server can keep: four requests of the longest prompts with their answers, or all of one run's (`_ALONE`)."""
_OVERHEAD = 2.2e9
"""Bytes of a rank beside weights and cache: seen were 1.2 GB of the tiny model with one rank and 2.4 GB with two."""
_BYTES = 2
"""Of a weight, or of a number in the cache."""


@dataclass(frozen=True)
class Shape:
    """A model."""

    name: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    layers: int

    @property
    def head(self) -> int:
        """Numbers of a head."""
        return self.hidden // self.heads

    def config(self, layers: int) -> dict[str, int]:
        """What differs from the tiny models' configuration."""
        return {
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head,
            "num_hidden_layers": layers,
        }

    def bytes(self, ranks: int) -> float:
        """Of GPU memory that a server takes on each of its cards: weights of target and draft, cache, and the rest."""
        attention = 2 * self.hidden * self.head * (self.heads + self.kv_heads)
        layer = attention + 3 * self.hidden * self.intermediate
        # NOTE: the draft's one layer reads two states at once, and mixes three of the target's before that.
        draft = layer + attention + 3 * self.hidden**2
        cache = TOKENS * (self.layers + 1) * 2 * self.kv_heads * self.head
        return _BYTES * (self.layers * layer + draft + cache) / ranks + _OVERHEAD * (1.0 if ranks == 1 else 1.5)


@dataclass(frozen=True)
class Load:
    """A model with what is asked of it."""

    name: str
    shape: Shape
    asked: Asked


TINY = Shape("tiny", 256, 512, 4, 2, 8)
"""Whatever needs a server that is soon ready."""
_5B = Shape("5b", 4096, 14336, 32, 8, 20)
_8B = Shape("8b", 4096, 14336, 32, 8, 32)

_ALONE = Asked(words=550, tokens=128, count=8, timeout=60.0)
_FOUR = replace(_ALONE, count=13, concurrency=4)

# The model has to be large enough that the GPU has its say (two servers of the tiny one were 17 % apart), and small
# enough that all servers of a block stand on one card: 11 of the first shape, 7 of the second. Prompts are long enough
# that prefill shows in the speed.
LOADS = (
    Load("5b-batch1", _5B, _ALONE), Load("5b-batch4", _5B, _FOUR), Load("8b-batch1", _8B, _ALONE),
    Load("8b-batch4", _8B, _FOUR),
)  # fmt: skip


def write_models(tiny: Path, folder: Path, shape: Shape) -> Path:
    """The target and its draft of a shape below `folder`, made of the tiny models in `tiny`; returns their folder."""
    place = folder / shape.name
    for name, source, layers in ((TARGET, "tiny-llama", shape.layers), (DRAFT, "tiny-eagle3", 1)):
        target = place / name
        if (target / "config.json").exists():
            continue
        shutil.copytree(tiny / source, target, dirs_exist_ok=True)
        config = json.loads((tiny / source / "config.json").read_text())
        (target / "config.json").write_text(json.dumps({**config, **shape.config(layers)}, indent=1))
    return place
