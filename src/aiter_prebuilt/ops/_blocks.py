"""Caches of layers as the bytes of their blocks."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from aiter_prebuilt.errors import ArgumentKindError
from aiter_prebuilt.ops._common import NOT_A_TENSOR


def layers(key_caches: Any, value_caches: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of each launch, [layers, blocks, bytes].

    Raises:
        ArgumentKindError: there are not as many of both, or one is no tensor with whole blocks.
    """
    if not _list(key_caches) and not _list(value_caches):
        yield _bytes(key_caches), _bytes(value_caches)
        return
    if not _list(key_caches) or not _list(value_caches) or len(key_caches) != len(value_caches):
        raise ArgumentKindError(
            "copy_blocks",
            "key_caches and value_caches must be two tensors, or two lists of equal length",
            "",
        )
    for keys, values in zip(key_caches, value_caches, strict=True):
        yield _bytes(keys, one=True), _bytes(values, one=True)


def _list(caches: Any) -> bool:
    """Tell whether ``caches`` is a list of tensors.

    A tensor without a framework is a tuple with a type.
    """
    return isinstance(caches, list | tuple) and not hasattr(caches, "dtype")


def _bytes(cache: Any, one: bool = False) -> Any:
    """View the bytes of all layers, or of ``one``.

    A tensor without a framework stays.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(cache, torch.Tensor):
        return cache
    try:
        whole = cache.unsqueeze(0) if one else cache
        rows = whole.view(*whole.shape[:2], math.prod(whole.shape[2:]))
        return rows.view(torch.uint8)
    except NOT_A_TENSOR as error:
        raise ArgumentKindError(
            "copy_blocks",
            f"a cache must have contiguous blocks, got {tuple(cache.shape)} with strides {cache.stride()} "
            f"({str(error).splitlines()[0]})",
            "Pass [layers, blocks, ...], or a list of [blocks, ...]",
        ) from error
