"""Certificates of blocks that run an algorithm on the examples of their prompt."""
