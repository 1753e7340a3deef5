"""Stage 5, judged code objects to bundles, and bundles to wheels."""
