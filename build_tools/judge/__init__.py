"""Stage 4: what may go into a bundle, and what was executed and found right."""
