"""From wheels that are done to a release: signed, with where each came from."""
