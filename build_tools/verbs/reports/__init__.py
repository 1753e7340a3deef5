"""What is covered, compiled, proved, adopted, chosen: one kind of report per file."""
