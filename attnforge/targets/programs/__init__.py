"""Programs over sequences: the language, what a program means, which types its values have, where it keeps them."""
