"""Kernels chosen by time on a card: what ``aiter-prebuilt tune`` measures, judges and writes."""
