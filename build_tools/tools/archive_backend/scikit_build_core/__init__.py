"""Stands in for scikit-build-core while pip downloads a source archive: see ``setuptools.build_meta`` beside it."""
