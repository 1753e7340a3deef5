"""Written by `python -m build_tools generate` from the manifests: one module a family. Do not edit."""
