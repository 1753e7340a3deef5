"""Prove and measure a card for ``aiter-prebuilt certify``: golden calls, launch cost, bandwidth, products; a file to send back.

``child`` runs work that opens a driver in a process of its own, ``golden_calls`` and ``ceilings`` are that work, ``anonymous``
takes out names of the site, ``document`` is the file that grows and is continued, ``page`` shows it.
"""
