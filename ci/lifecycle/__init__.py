"""What a release goes through, from its signature to its removal."""
