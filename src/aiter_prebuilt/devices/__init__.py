"""The driver's side: load the native extension, ask what a device is, allocate and share its memory."""
