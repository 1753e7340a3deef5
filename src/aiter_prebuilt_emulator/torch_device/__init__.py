"""Install torch's names and operators for the embedded device.

``aiter_prebuilt_emulator.torch`` calls it.
"""
