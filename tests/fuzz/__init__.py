"""The readers of a bundle under libFuzzer."""
