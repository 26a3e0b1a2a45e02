"""A process that has imported everything, and forks others, which so begin at once.

It is told what to do by messages of nine bytes on a socket, which is its standard input: ``f`` comes with one end of a
connection and is answered by the number of the process that serves it; ``k`` and such a number ends that process. When
the socket is closed, all end. Nothing is pickled, and nobody's main module runs twice.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

MESSAGE = struct.Struct("<cq")
PACKAGE = Path(__file__).resolve().parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Nursery:
    """The process, from outside. Calls wait for its answers: the first one until it has imported everything."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        path = os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
        surroundings = os.environ | ONE_THREAD | {"PYTHONPATH": path}
        command = [sys.executable, "-m", "attnforge.web.nursery"]
        self._process = subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=surroundings, start_new_session=True
        )
        theirs.close()

    def fork(self, connection: socket.socket) -> int:
        """A new process that serves the other end of this connection; its number."""
        socket.send_fds(self._socket, [MESSAGE.pack(b"f", 0)], [connection.fileno()])
        return self._answer()

    def kill(self, number: int) -> None:
        """End a process that it has forked, if it lives."""
        self._socket.sendall(MESSAGE.pack(b"k", number))
        self._answer()

    def close(self) -> None:
        """End it, and all that it has forked, at once: they are a session of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()

    def _answer(self) -> int:
        data = self._socket.recv(MESSAGE.size, socket.MSG_WAITALL)
        if len(data) < MESSAGE.size:
            raise OSError("the process that starts others has ended")
        return int(MESSAGE.unpack(data)[1])


def main() -> None:
    """Fork and end processes as told."""
    from attnforge.web.worker import serve, warm

    warm()
    control, children = socket.socket(fileno=os.dup(0)), set[int]()
    while True:
        data, handed, _, _ = socket.recv_fds(control, MESSAGE.size, 1)
        children -= _ended(children)
        if len(data) < MESSAGE.size:
            break
        order, number = MESSAGE.unpack(data)
        if order == b"f":
            number = os.fork()
            if number == 0:
                control.close()
                serve(socket.socket(fileno=handed[0]))
                os._exit(0)
            os.close(handed[0])
            children.add(number)
        elif number in children:
            _kill(number)
            children.discard(number)
        control.sendall(MESSAGE.pack(order, number))
    for child in children:
        _kill(child)


def _ended(children: set[int]) -> set[int]:
    """Those that have ended by themselves."""
    return {child for child in children if os.waitpid(child, os.WNOHANG)[0]}


def _kill(child: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
