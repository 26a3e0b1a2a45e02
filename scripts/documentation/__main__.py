"""``./run docs``: build the documentation into ``site/`` and serve it on loopback; with ``--build``, only build it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from scripts.documentation.links import ROOT

SITE = ROOT / "site"
LOOPBACK = "127.0.0.1"


def main() -> None:
    """Build, then serve until interrupted."""
    parser = argparse.ArgumentParser(prog="./run docs", description=__doc__)
    parser.add_argument("--build", action="store_true", help="build it and stop")
    parser.add_argument("--port", type=int, default=8000, help="where to serve it (default: 8000; 0: any that is free)")
    given = parser.parse_args()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, env=quiet(), check=False)
    if done.returncode or given.build:
        raise SystemExit(done.returncode)
    serve(given.port)


def quiet() -> dict[str, str]:
    """The surroundings of a build: figures without a display, one thread, and no advertisement of other programs."""
    return os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "NO_MKDOCS_2_WARNING": "1"}


def serve(port: int) -> None:
    """Serve the files that were built, to this machine only."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(SITE))
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), handler)
    except OSError as error:
        raise SystemExit(
            f"./run docs: port {port} cannot be used ({error.strerror}). Choose another with --port"
        ) from None
    print(f"http://{LOOPBACK}:{server.server_port}/  (Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
