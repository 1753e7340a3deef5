"""Caches as vLLM lays them out, several heads of keys in a latent cache, scales without dims: whole functions on torch."""

from __future__ import annotations

from support.torch_programs import run_program


def test_caches_as_clients_lay_them_out() -> None:
    done = run_program("cache_layouts", "gfx942")
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr[-3000:]
