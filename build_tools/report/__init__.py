"""Report covered and missing operators, and shapes that ask for tuning."""
