"""Rigorous bounds of |network - target| by Taylor expansions with balls, for heads whose values were fitted."""
