"""Files of minisign: what another program writes is read and right; what was changed is refused by what was changed."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from minisign import KeyPair

from aiter_prebuilt.bundles import minisign
from aiter_prebuilt.errors import KeyFileError, SignatureError, WrongKeyError

DATA = b"what was signed"
COMMENT = "who and when\tversion:9"


class Signer:
    """A key of another program's, its public half as a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.pair = KeyPair.generate()
        self.public = folder / f"{name}.pub"
        self.public.write_bytes(bytes(self.pair.public_key) + b"\n")
        self.keys = minisign.keys_of(self.public)

    def sign(self, path: Path, data: bytes = DATA, comment: str = COMMENT, prehash: bool = True) -> Path:
        path.write_bytes(
            bytes(self.pair.secret_key.sign(data, prehash=prehash, trusted_comment=comment)) + b"\n"
        )
        return path


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer(tmp_path, "one")


@pytest.mark.parametrize("prehash", [True, False])
def test_a_signature_of_either_kind_is_right(signer: Signer, tmp_path: Path, prehash: bool) -> None:
    path = signer.sign(tmp_path / "a.minisig", prehash=prehash)
    found = minisign.check(path, DATA, "the file", signer.keys)
    assert (found.comment, found.hashed, found.number) == (COMMENT, prehash, signer.keys[0].number)
    raw = base64.b64decode(signer.public.read_text().splitlines()[1])
    assert found.number == raw[2:10][::-1].hex().upper()


def test_what_was_signed_is_no_other(signer: Signer, tmp_path: Path) -> None:
    path = signer.sign(tmp_path / "a.minisig")
    for changed in (DATA + b"\n", DATA[:-1], b"W" + DATA[1:]):
        with pytest.raises(
            SignatureError, match="it is not the signature of the file: one of the two was changed"
        ):
            minisign.check(path, changed, "the file", signer.keys)


def test_a_comment_that_was_changed_or_is_another_signatures(signer: Signer, tmp_path: Path) -> None:
    path, other = (
        signer.sign(tmp_path / "a.minisig"),
        signer.sign(tmp_path / "b.minisig", comment="version:9"),
    )
    mine, yours = path.read_text().splitlines(), other.read_text().splitlines()
    for lines in ([*mine[:2], "trusted comment: version:9", mine[3]], [*mine[:2], *yours[2:]]):
        path.write_text("\n".join(lines))
        # The second one is of the same bytes: Ed25519 gives one signature, so that its comment is signed with it.
        if lines[3] == yours[3] and mine[1] == yours[1]:
            assert minisign.check(path, DATA, "the file", signer.keys).comment == "version:9"
            continue
        with pytest.raises(SignatureError, match="its comment 'version:9' is not the one that was signed"):
            minisign.check(path, DATA, "the file", signer.keys)


def test_the_comment_of_another_file_is_refused(signer: Signer, tmp_path: Path) -> None:
    path, other = (
        signer.sign(tmp_path / "a.minisig"),
        signer.sign(tmp_path / "b.minisig", b"old", "version:1"),
    )
    mine, yours = path.read_text().splitlines(), other.read_text().splitlines()
    path.write_text("\n".join([*mine[:2], *yours[2:]]))
    with pytest.raises(SignatureError, match="its comment 'version:1' is not the one that was signed"):
        minisign.check(path, DATA, "the file", signer.keys)


def test_another_key_is_named(signer: Signer, tmp_path: Path) -> None:
    other = Signer(tmp_path, "two")
    path = signer.sign(tmp_path / "a.minisig")
    words = f"was made with the key {signer.keys[0].number}; trusted: {other.keys[0].number}"
    with pytest.raises(WrongKeyError, match=words):
        minisign.check(path, DATA, "the file", other.keys)
    assert minisign.check(path, DATA, "the file", (*other.keys, *signer.keys)).number == signer.keys[0].number


def test_a_key_under_the_number_of_another_does_not_pass(signer: Signer, tmp_path: Path) -> None:
    other = Signer(tmp_path, "two")
    forged = minisign.PublicKey(signer.keys[0].number, other.keys[0].key)
    path = signer.sign(tmp_path / "a.minisig")
    with pytest.raises(SignatureError, match="it is not the signature of the file"):
        minisign.check(path, DATA, "the file", (forged,))
    assert minisign.check(path, DATA, "the file", (forged, *signer.keys)).comment == COMMENT


def test_files_with_several_keys(signer: Signer, tmp_path: Path) -> None:
    other = Signer(tmp_path, "two")
    both = tmp_path / "both.pub"
    both.write_text(f"{signer.public.read_text()}\n{other.public.read_text().splitlines()[1]}\n")
    assert minisign.keys_of(both) == (*signer.keys, *other.keys)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it holds no Ed25519 key"),
        ("untrusted comment: only that\n", "it holds no Ed25519 key"),
        ("untrusted comment: x\nnot base64!\n", "a line is not base64"),
        ("untrusted comment: x\n" + base64.b64encode(b"Xd" + bytes(40)).decode(), "it holds no Ed25519 key"),
        ("untrusted comment: x\n" + base64.b64encode(b"Ed" + bytes(39)).decode(), "it holds no Ed25519 key"),
        ("\xff\xfe", "codec can't decode"),
        ("a" * 70_000, "it has 70000 bytes, which no such file has"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "k.pub"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(KeyFileError, match=re.escape(words)) as refused:
        minisign.keys_of(path)
    assert refused.value.asked == f"read the public key {path}" and "minisign -G" in refused.value.fix


def test_a_key_that_is_not_there_and_one_that_is_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, ""):
        with pytest.raises(KeyFileError):
            minisign.keys_of(path)


def test_every_damage_of_a_signature_file_is_a_signature_error(signer: Signer, tmp_path: Path) -> None:
    path = signer.sign(tmp_path / "a.minisig")
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1  # nobody vouches for the first line
    changed = 0
    for place in range(first, len(whole) - 1):
        data = bytearray(whole)
        data[place] ^= 1
        path.write_bytes(bytes(data))
        try:
            minisign.check(path, DATA, "the file", signer.keys)
        except (SignatureError, WrongKeyError):
            changed += 1
        else:
            # Bits behind the last of base64's that carry something.
            lines, before = bytes(data).split(b"\n"), whole.split(b"\n")
            assert [base64.b64decode(lines[n]) for n in (1, 3)] == [
                base64.b64decode(before[n]) for n in (1, 3)
            ]
    assert changed > (len(whole) - first) * 0.9
    for cut in (0, 10, first, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:cut])
        with pytest.raises(SignatureError, match="check the signature"):
            minisign.check(path, DATA, "the file", signer.keys)


def test_reads_a_key_file_with_a_byte_order_mark(signer: Signer) -> None:
    signer.public.write_bytes(b"\xef\xbb\xbf" + signer.public.read_bytes())
    assert minisign.keys_of(signer.public) == signer.keys


def test_refuses_a_key_file_with_letters_outside_ascii(signer: Signer) -> None:
    signer.public.write_text(signer.public.read_text() + "R\u0174schl\u00fcssel\n", encoding="utf-8")
    with pytest.raises(KeyFileError, match="a line is not base64"):
        minisign.keys_of(signer.public)


def test_a_file_that_is_too_large_is_not_read(signer: Signer, tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing: reading it would end the process
    with pytest.raises(KeyFileError, match=f"it has {1 << 40} bytes, which no such file has"):
        minisign.keys_of(path)
    with pytest.raises(SignatureError):
        minisign.read(path)
