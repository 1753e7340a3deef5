"""The verbs of ``python -m build_tools``: one file each, listed by hand in ``__main__``."""
