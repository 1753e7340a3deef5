"""Whole engines on the emulator: vLLM's Python files, stock AITER through the bridge, models of random weights."""
