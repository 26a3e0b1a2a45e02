"""Finding proofs: what to look at, where to cut, in which order. Nothing here is trusted: the kernel makes theorems."""
