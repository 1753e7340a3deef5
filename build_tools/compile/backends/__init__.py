"""One module per backend, listed by hand in ``table``; none imports another. ``*_compile`` run as children."""
