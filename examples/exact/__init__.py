"""The four layers in float64, written down plainly: a whole sequence at once, no cache, no rounding."""
