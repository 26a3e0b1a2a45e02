"""The weights of a program: one softmax head a register."""
