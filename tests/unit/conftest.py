"""Fixtures of tests that trace public functions with torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    """The registrations, with the references as kernels for CPU tensors."""
    from support import torch_kernels  # late: it imports torch, which not every environment has

    yield from torch_kernels.registered()


@pytest.fixture
def compiled(library: Any) -> Iterator[Any]:
    """torch.compile with nothing left over from another test; a graph break is an error."""
    import torch

    torch._dynamo.reset()
    yield lambda function: torch.compile(function, fullgraph=True, backend="eager")
    torch._dynamo.reset()
