"""Graphs of registers: every head proved by itself, from its numbers, and the errors composed."""
