"""Kernels chosen by time on a card, for ``aiter-prebuilt tune``."""
