"""Named, certified networks of many kinds, and knobs that hide how a network works without changing what it does."""
