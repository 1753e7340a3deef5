"""The page that people look at: static files, made of what the verbs print as JSON and of nothing else."""
