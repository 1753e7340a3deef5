"""Types, expressions, recipes and bundle format, for build and runtime.

Standard library only. Nothing here probes the machine, opens a driver or imports torch.
"""
