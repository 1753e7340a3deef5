"""Files and processes: hashes, reproducible writes, the one place that starts a subprocess, progress."""
