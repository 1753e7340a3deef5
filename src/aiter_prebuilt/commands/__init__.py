"""The verbs of the `aiter-prebuilt` command: one file each, with ``configure`` and ``execute``."""
