"""The inequalities everything rests on, one a file, evaluated with outward rounding.

Lengths are in units of the anchor spacing h and sharpness is c = beta h^2, so each is a statement about numbers alone.
"""
