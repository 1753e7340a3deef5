"""Ed25519 signatures (RFC 8032), verified with Python's integers alone: a machine that only serves has no library for it.

Nothing here is secret, so nothing needs to take the same time for all inputs. A verification takes some milliseconds.
"""

from __future__ import annotations

import hashlib
from typing import Final

_P: Final = 2**255 - 19
#: The order of the base point.
_L: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_ROOT: Final = pow(2, (_P - 1) // 4, _P)
_COFACTOR: Final = 8

#: x, y, z and x * y, all times z: sums need no division.
_Point = tuple[int, int, int, int]
_ZERO: Final[_Point] = (0, 1, 1, 0)


def is_right(signature: bytes, message: bytes, key: bytes) -> bool:
    """Did the owner of ``key`` (32 bytes) make ``signature`` (64 bytes) of ``message``? What is no signature, and a key that
    everybody could sign for, give False.
    """
    if len(signature) != 64 or len(key) != 32:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    public = _point(key)
    if public is None or scalar >= _L or _same(_times(_COFACTOR, public), _ZERO):
        return False
    hashed = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % _L
    # S * B - h * A is the point that the first half names, and no other bytes name it.
    x, y, z, product = _times(hashed, public)
    return _bytes(_sum(_times(scalar, _BASE), (-x % _P, y, z, -product % _P))) == signature[:32]


def _sum(one: _Point, other: _Point) -> _Point:
    a, b = (one[1] - one[0]) * (other[1] - other[0]) % _P, (one[1] + one[0]) * (other[1] + other[0]) % _P
    c, d = 2 * one[3] * other[3] * _D % _P, 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(count: int, point: _Point) -> _Point:
    found = _ZERO
    while count:
        if count & 1:
            found = _sum(found, point)
        point = _sum(point, point)
        count >>= 1
    return found


def _same(one: _Point, other: _Point) -> bool:
    return not ((one[0] * other[2] - other[0] * one[2]) % _P or (one[1] * other[2] - other[1] * one[2]) % _P)


def _point(data: bytes) -> _Point | None:
    """Decode the point that 32 bytes name.

    Its y, and the lowest bit of its x above it. None: they name none, or not in the one way.
    """
    number = int.from_bytes(data, "little")
    y, odd = number & (2**255 - 1), number >> 255
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or (x == 0 and odd):
        return None
    x = x if x & 1 == odd else _P - x
    return x, y, 1, x * y % _P


def _bytes(point: _Point) -> bytes:
    over = pow(point[2], -1, _P)
    x, y = point[0] * over % _P, point[1] * over % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _base() -> _Point:
    found = _point((4 * pow(5, -1, _P) % _P).to_bytes(32, "little"))
    assert found is not None
    return found


_BASE: Final = _base()
