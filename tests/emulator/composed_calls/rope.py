"""Rotary embeddings."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import torch
from emulator.composed_calls.place import PACKAGE, Call, Place, host, near


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, sign: int = 1) -> torch.Tensor:
    """Halves of each head turned by angles."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - sign * second * sin, second * cos + sign * first * sin], -1)


def rope(name: str, place: Place) -> None:
    """Any of the rotary embeddings, named by its parts."""
    two, back, inplace = "_2c" in name, "_bwd" in name, name.endswith("_inplace")
    sign = -1 if back else 1
    flat, image = "thd" in name, "2d" in name
    shape = (6, 3, 16) if flat else (2, 6, 3, 16) if image else (3, 2, 3, 16)
    inputs = [place.normal(*shape) for _ in range(2 if two else 1)]
    before = [host(each) for each in inputs]
    end: tuple[Any, ...] = (0, True, False)
    if image:
        angles = [torch.randn(1, count, 1, 4, generator=place.draw) for count in (2, 3)]
        tables = [each(angle).to(place.device) for angle in angles for each in (torch.cos, torch.sin)]
        cos = [torch.cos(each.double()) for each in angles]
        sin = [torch.sin(each.double()) for each in angles]

        def right_of(x: torch.Tensor) -> torch.Tensor:
            image_of = x.reshape(2, 2, 3, 3, 16)
            rows = turned(
                image_of[..., :8], cos[0].reshape(1, 2, 1, 1, 4), sin[0].reshape(1, 2, 1, 1, 4), sign
            )
            columns = turned(
                image_of[..., 8:], cos[1].reshape(1, 1, 3, 1, 4), sin[1].reshape(1, 1, 3, 1, 4), sign
            )
            return torch.cat([rows, columns], -1).reshape(x.shape)

        arguments: tuple[Any, ...] = (*inputs, *tables, 2, 3, *end)
    else:
        angle = torch.randn(6 if "positions" in name else shape[0], 1, 1, 8, generator=place.draw)
        cached = "cached" in name
        tables = (
            [angle.cos().to(place.device), angle.sin().to(place.device)]
            if cached
            else [angle.to(place.device)]
        )
        places = torch.arange(shape[0])[:, None].expand(shape[0], shape[1])
        lists = []
        if "positions" in name:
            lists.append(place.whole(3, 3, 2, kind=torch.int64))
            places = lists[0].cpu()
        if "offsets" in name:
            lists.append(place.whole(3, 3, 2, kind=torch.int64))
            places = places + lists[1].cpu()
        if flat:
            lists = [torch.tensor([0, 2, 5], dtype=torch.int32, device=place.device)]
            rows = angle.double().reshape(-1, 8)[torch.tensor([0, 1, 0, 1, 2])][:, None]
        else:
            rows = angle.double().reshape(-1, 8)[places][:, :, None]

        def right_of(x: torch.Tensor) -> torch.Tensor:
            if not flat:
                return turned(x, rows.cos(), rows.sin(), sign)
            return torch.cat([turned(x[:5], rows.cos(), rows.sin(), sign), x[5:]])

        arguments = (*inputs, *lists, *tables, *end) if flat else (*inputs, *tables, *lists, *end)
    found = getattr(PACKAGE, name)(*arguments)
    outs = inputs if inplace else found if two else [found]
    rows_of = 5 if flat else None  # tokens behind the last sequence belong to none
    for out, given in zip(outs, before, strict=True):
        near(out[:rows_of], right_of(given)[:rows_of], 2**-7)


_NAMES: Final = [
    f"{base}{two}_{way}"
    for base in (
        "rope",
        "rope_cached",
        "rope_cached_positions",
        "rope_cached_positions_offsets",
        "rope_thd",
        "rope_2d",
    )
    for two in ("", "_2c")
    for way in ("fwd", "fwd_inplace", "bwd")
]
#: Function -> its call.
CALLS: Final[dict[str, Call]] = {name: partial(rope, name) for name in _NAMES if hasattr(PACKAGE, name)}
