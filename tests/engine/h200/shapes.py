"""Models for the search of a quiet load: weights are made up at load, so that any size is only a configuration."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.planted.bench import Asked

TARGET, DRAFT = "target", "draft"


@dataclass(frozen=True)
class Shape:
    """A model and a load. `memory` is the engine's share of GPU memory for weights and cache."""

    name: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    layers: int
    memory: float
    asked: Asked

    def config(self, layers: int) -> dict[str, int]:
        """What differs from the tiny models' configuration."""
        return {
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.hidden // self.heads,
            "num_hidden_layers": layers,
        }


def _asked(concurrency: int, tokens: int) -> Asked:
    return Asked(words=120, tokens=tokens, count=1 + 3 * concurrency, concurrency=concurrency)


# One request at a time leaves the speed to the host: three servers of the 8-billion shape spanned 7 %. More requests at
# once, more layers and longer answers leave more of it to the GPUs.
SHAPES = (
    Shape("8b-batch1", 4096, 14336, 32, 8, 32, 0.5, _asked(1, 1024)),
    Shape("8b-batch4", 4096, 14336, 32, 8, 32, 0.5, _asked(4, 1024)),
    Shape("32b-batch1", 5120, 25600, 40, 8, 64, 0.7, _asked(1, 768)),
    Shape("32b-batch4", 5120, 25600, 40, 8, 64, 0.7, _asked(4, 768)),
    Shape("70b-batch4", 8192, 28672, 64, 8, 80, 0.85, _asked(4, 512)),
)


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
