"""What is trusted for the word *proved*."""
