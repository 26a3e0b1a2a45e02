"""Searches for witnesses of proofs: nothing here is trusted."""
