"""What is covered, what is missing, and which shapes ask for tuning."""
