"""One construction per file: what its weights are, and why they do what they claim."""
