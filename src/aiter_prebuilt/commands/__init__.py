"""The verbs of the `aiter-prebuilt` command: one file each, with ``configure`` and ``execute``."""

VERBS = (
    "bench",
    "bridge",
    "certify",
    "completion",
    "coverage",
    "doctor",
    "explain",
    "list",
    "preload",
    "tune",
    "verify",
)
