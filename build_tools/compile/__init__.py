"""Stage 3, plan to code objects: each job compiled once, content-addressed."""
