"""Readers of what was made: code objects, cubins, and built bundles. They judge nothing."""
