"""What the build tools and the runtime both know: types, expressions, recipes and the bundle format.

Standard library only. Nothing here probes the machine, opens a driver or imports torch.
"""
