"""Ed25519 by integers: the vectors of RFC 8032, signatures of another program's, and what must not pass."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aiter_prebuilt.bundles.ed25519 import is_right

ORDER = 2**252 + 27742317777372353535851937790883648493
#: RFC 8032, 7.1: key, message, signature.
VECTORS = (
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
)


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_the_vectors_of_the_standard(key: str, message: str, signature: str) -> None:
    assert is_right(bytes.fromhex(signature), bytes.fromhex(message), bytes.fromhex(key))


def test_the_vectors_of_wycheproof() -> None:
    """Malleable, truncated and long signatures, points and scalars out of range, and signatures that are right."""
    path = Path(__file__).parents[1] / "data" / "wycheproof_ed25519.json"
    rows = json.loads(path.read_text())["tests"]
    wrong = [
        (number, comment)
        for number, key, message, signature, result, comment in rows
        if is_right(bytes.fromhex(signature), bytes.fromhex(message), bytes.fromhex(key))
        != (result == "valid")
    ]
    assert wrong == []
    assert len(rows) == 151 and {row[4] for row in rows} == {"valid", "invalid"}


def _made(size: int) -> tuple[bytes, bytes, bytes]:
    """(signature, message, key) of another program."""
    private = Ed25519PrivateKey.generate()
    message = secrets.token_bytes(size)
    return private.sign(message), message, private.public_key().public_bytes_raw()


@pytest.mark.parametrize("size", [0, 1, 64, 128, 1000])
def test_what_another_program_signed_is_right_and_no_bit_of_it_may_change(size: int) -> None:
    made = _made(size)
    assert is_right(*made)
    for place, part in enumerate(made):
        for _ in range(4):
            if part:
                bit = secrets.randbelow(8 * len(part))
                changed = bytearray(part)
                changed[bit // 8] ^= 1 << bit % 8
                parts = [*made[:place], bytes(changed), *made[place + 1 :]]
                assert not is_right(parts[0], parts[1], parts[2]), (place, bit)


def test_another_scalar_of_the_same_class_is_refused() -> None:
    """S and S + L give the same point: only the smaller one is a signature, else anybody could make a second one."""
    signature, message, key = _made(32)
    scalar = int.from_bytes(signature[32:], "little") + ORDER
    assert not is_right(signature[:32] + scalar.to_bytes(32, "little"), message, key)


def test_a_key_for_which_everybody_can_sign_is_refused() -> None:
    """The neutral point as key, the neutral point and 0 as signature: right for every message by the equation alone."""
    neutral = (1).to_bytes(32, "little")
    assert not is_right(neutral + bytes(32), b"anything", neutral)
    # y = 0 has order 4, y = -1 order 2.
    for weak in (bytes(32), (2**255 - 20).to_bytes(32, "little")):
        assert not is_right(weak + bytes(32), b"anything", weak)


def test_what_has_another_size_or_is_no_point_is_no_signature() -> None:
    signature, message, key = _made(8)
    assert not is_right(signature[:-1], message, key) and not is_right(signature, message, key[:-1])
    assert not is_right(signature, message, b"\xff" * 32)  # y beyond the field
    assert not is_right(signature, message, (2).to_bytes(32, "little"))  # no x for it
