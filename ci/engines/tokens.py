"""A tokenizer for models of random weights: a byte of UTF-8 is a token, and the other ids are words of their own."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, Final

_CHAT: Final = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
_SPECIAL: Final = ("<pad>", "<s>", "</s>")


def write(folder: Path, size: int) -> None:
    """Write Hugging Face's files of a tokenizer with ``size`` tokens beside a model."""
    # Installed with transformers, and not where this is linted.
    tokenizers: Any = importlib.import_module("tokenizers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    letters = sorted(byte_level.alphabet())
    words = [*_SPECIAL, *letters]
    words += [f"<{number}>" for number in range(len(words), size)]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE({word: number for number, word in enumerate(words)}, [])
    )
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": _CHAT,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), encoding="utf-8")
