"""Where processes at work announce themselves and wait to be let on: no test guesses how long they take."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Arrivals = Counter[int]  # how often each process has come


def arrive(port: int) -> None:
    """In a process: announce it, and wait to be let on."""
    with socket.create_connection(("127.0.0.1", port)) as meeting, meeting.makefile("rw") as stream:
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        stream.readline()


class Meeting:
    """Whoever comes is let on as soon as ``admits(process, arrivals)``, which may be never."""

    def __init__(self, listener: socket.socket, admits: Callable[[int, Arrivals], bool]) -> None:
        self.port, self.arrivals = listener.getsockname()[1], Arrivals()
        self._listener, self._admits, self._changed = listener, admits, threading.Condition()
        self._begin(self._listen)

    def wait(self, condition: Callable[[Arrivals], bool]) -> None:
        """Until so many have come."""
        with self._changed:
            self._changed.wait_for(lambda: condition(self.arrivals))

    def _listen(self) -> None:
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:  # closed: the meeting is over
                return
            self._begin(self._receive, connection)

    def _receive(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw") as stream:
            process = int(stream.readline())
            with self._changed:
                self.arrivals[process] += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._admits(process, self.arrivals))
            stream.write("\n")

    @staticmethod
    def _begin(work: Callable[..., None], *given: object) -> None:
        threading.Thread(target=work, args=given, daemon=True).start()


@contextmanager
def meeting(admits: Callable[[int, Arrivals], bool]) -> Iterator[Meeting]:
    """A place to meet, until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Meeting(listener, admits)
        listener.shutdown(socket.SHUT_RDWR)


def stuck(victim: int) -> Callable[[int, Arrivals], bool]:
    """Who is let on: the victim once, and the others when it has come again, to stay."""
    return lambda process, arrivals: arrivals[victim] == 1 if process == victim else arrivals[victim] > 1
