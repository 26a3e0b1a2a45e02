"""Formulas as graphs of registers: every node that is not linear is one head."""
