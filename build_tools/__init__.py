"""The pipeline: manifests in, wheels out. ``python -m build_tools VERB``; never installed with the runtime."""
