"""Compiles on machines of a cluster: a scheduler, workers, and the build that leads them."""
