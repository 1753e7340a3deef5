"""Install torch's names and operators for the emulator.

``aiter_prebuilt_emulator.torch`` calls it.
"""
