"""Stage 2, manifest to plan: every operator's slots, variants and recipes, and the exact list of jobs."""
