"""Take a release through its life, from its signature to its removal."""
