"""What ``aiter_prebuilt_emulator.torch`` installs: torch's names and operators for the embedded device."""
