"""Written by `python -m build_tools generate`: what hand-written functions refuse. Do not edit."""
