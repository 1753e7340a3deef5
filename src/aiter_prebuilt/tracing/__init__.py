"""What torch.compile sees: each operator as ``torch.ops.aiter_prebuilt.NAME``, its shapes, and a traced form of each function."""
