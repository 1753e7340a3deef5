"""Installed bundles: find them, read them, say who signed them, check every byte of them."""
