"""The words of ``aiter-prebuilt-emulator``: what is misspelt is named, with what was probably meant."""

from __future__ import annotations

import pytest

from aiter_prebuilt.contract.products import PRODUCTS
from aiter_prebuilt.contract.targets import AMD
from aiter_prebuilt_emulator import products, usage
from aiter_prebuilt_emulator.__main__ import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "VERB is required. The verbs are path, coverage, run, debug, counters."),
        (("--verison",), "No option '--verison'. Did you mean '--version'?"),
        (("rnu",), "No verb 'rnu'. Did you mean 'run'? Choose one of: path, coverage, run, debug, counters."),
        (("run", "--devcies", "gfx942", "--", "true"), "No option '--devcies'. Did you mean '--devices'?"),
        (("counters", "--tagret", "gfx942"), "No option '--tagret'. Did you mean '--target'?"),
        (("counters", "--target", "gfx94"), "No target 'gfx94'. Did you mean 'gfx942'?"),
        (("coverage",), "FILE.co must be given. For example: aiter-prebuilt-emulator coverage FILE.co"),
        (
            ("run", "--devices", "gfx9422", "--", "true"),
            "--devices: No device 'gfx9422'. Did you mean 'gfx942'?",
        ),
        (("run", "--devices", "gfx942,mi355", "--", "true"), "No device 'mi355'. Did you mean 'mi355x'?"),
        (
            ("run", "--devices", "gfx90a", "--", "true"),
            "--devices: No device 'gfx90a'. Supported: gfx942 and gfx950.",
        ),
    ],
)
def test_names_the_word_that_was_meant(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2 and said in " ".join(capsys.readouterr().err.split())


def test_a_product_stands_for_its_target() -> None:
    assert {name: target for name, target in PRODUCTS.items() if target in AMD} == products.PRODUCTS
    assert usage.devices("MI300X:cus=8:memory=8G,gfx950,mi355x") == "gfx942:cus=8:memory=8G,gfx950,gfx950"
    assert usage.devices("") == ""
