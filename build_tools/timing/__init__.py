"""Times of calls from what the emulator's timing model says of a workgroup, with constants fitted to measured rows."""
