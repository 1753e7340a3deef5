"""Times of calls from what the embedded device's timing model says of a workgroup, with constants fitted to measured rows."""
