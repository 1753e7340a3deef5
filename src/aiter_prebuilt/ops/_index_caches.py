"""Caches of ``rope_cache_index.py`` in the types that its operator takes."""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.contract.targets import fp8_of
from aiter_prebuilt.ops._common import element_type, is_type
from aiter_prebuilt.ops._target import target_of


def codes_of(cache: Any) -> Any:
    """View a cache of bytes as codes of the target's fp8. Anything else stays as it is."""
    if cache is None or not is_type(cache.dtype, "u8"):
        return cache
    kind = fp8_of(target_of(cache))
    if isinstance(cache, tuple):  # it has no framework
        address, _, shape, strides, device = cache
        return (address, kind, shape, strides, device)
    return cache.view(element_type(cache, kind))


def caches_of(keys: Any, values: Any, index: Any, kinds: tuple[Any, Any]) -> tuple[Any, Any, Any, Any]:
    """View the caches with codes as fp8, and name the type of the indexer's cache: "fp8", "auto" or what the caller said."""
    kind, index_kind = kinds
    holds_codes = str(kind).startswith("fp8")
    if index_kind is None:
        index_kind = "fp8" if holds_codes else "auto"
    if keys is None:
        return keys, values, index, "auto"
    if holds_codes:
        keys, values = codes_of(keys), codes_of(values)
    if str(index_kind).startswith("fp8"):
        index, index_kind = codes_of(index), "fp8"
    return keys, values, index, index_kind
