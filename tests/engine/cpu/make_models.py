#!/usr/bin/env python3
"""make_models.py DIR : write DIR/tiny-llama (target) and DIR/tiny-eagle3 (EAGLE-3 draft).

Configurations and a small byte-level BPE tokenizer only, no weights: serve them
with --load-format dummy. Standard library only. Output text is meaningless.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

VOCAB = 1024
SPECIAL = ["<s>", "</s>"]  # ids 0 and 1

COMMON: dict[str, Any] = {
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "vocab_size": VOCAB,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
MODELS: dict[str, dict[str, Any]] = {
    "tiny-llama": dict(COMMON, architectures=["LlamaForCausalLM"], num_hidden_layers=8),
    "tiny-eagle3": dict(COMMON, architectures=["LlamaForCausalLMEagle3"], num_hidden_layers=1, draft_vocab_size=VOCAB),
}
WORDS = """
the of and a to in is was that for it with as on be at by this have from or one had not but what all
were when we there can an your which their said if do will each about how up out them then she many
some so these would other into has more her two like him see time could no make than first been its
who now people my made over did down only way find use may water long little very after words called
just where most know get through back much before go good new write our used me man too any day same
right look think also around another came come work three word must because does part even place well
such here take why things help put years different away again off went old number great tell men say
small every found still between name should home big give air line set own under read last never us
left end along while might next sound below saw something thought both few those always looked show
large often together asked house world going want school important until form food keep children feet
land side without boy once animals life enough took four head above kind began almost live page got
hello system process thread kernel memory server model token batch request cache queue latency graph
"""


def byte_alphabet() -> dict[int, str]:
    """256 visible characters, one a byte: printable ones as themselves, the rest from U+0100 on."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(0x100 + i) for i, b in enumerate(rest)}}


def tokenizer() -> dict[str, Any]:
    alphabet = byte_alphabet()
    vocab = {t: i for i, t in enumerate(SPECIAL + sorted(alphabet.values()))}
    merges = []
    for word in (w for known in WORDS.split() for w in (" " + known, known)):
        left = alphabet[ord(word[0])]
        for ch in word[1:]:  # grow the word from the left, one character a merge
            if len(vocab) >= VOCAB:
                break
            right = alphabet[ord(ch)]
            if left + right not in vocab:
                vocab[left + right] = len(vocab)
                merges.append([left, right])
            left += right
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [
        {
            "id": i,
            "content": t,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, t in enumerate(SPECIAL)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges,
        },
    }


TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "</s>",
    "model_max_length": 2048,
    "clean_up_tokenization_spaces": False,
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}",
}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make_models.py DIR")
    files = {
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": TOKENIZER_CONFIG,
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1},
    }
    for name, config in MODELS.items():
        folder = pathlib.Path(sys.argv[1], name)
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in {"config.json": config, **files}.items():
            (folder / file).write_text(json.dumps(data, indent=1) + "\n")
        print(folder)


main()
