"""What one request may ask for: numbers that keep every answer within seconds, and a server free for others."""

from __future__ import annotations

TEXT = 400  # characters of a formula
BODY = 64 * 1024  # bytes of a request: the longest one, a prompt of EXAMPLES pairs, has a tenth of it
SENDING = 10.0  # seconds that a request may take to arrive
REACH = 1e6  # of ends of an interval: beyond it plots show nothing but their labels
INPUTS = 9  # of a formula graph: gravity between two bodies has as many

ANCHORS = 512  # on the domain of one input: a fit of so many takes a third of a second
GRID = 32  # along each of two inputs: 1,024 cells
HEADS = 16
SENTINELS = 4
SHARPNESS = (1e-3, 1e4)  # c = beta h^2: from uniform to what overflows float16
TOLERANCES = (1e-13, 1.0)

EXAMPLES = 60  # of a prompt
STEPS = 200  # blocks of an algorithm
TOKENS = 16  # of a program's sequence: attention maps stay legible

QUICK, LONG = 15.0, 90.0  # seconds after which a process is ended: of a picture, of a proof
WAITING = 500  # requests that may wait for a process; more are refused at once
MEMORY = 6 * 2**30  # bytes of address space of a process; torch alone takes a part of it
TASKS = 500  # after which a process makes room for a fresh one
