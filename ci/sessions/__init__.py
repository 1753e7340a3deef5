"""The sessions of nox, a module for each purpose: ``noxfile.py`` imports them."""
