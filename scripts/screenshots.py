"""Pictures of the explorer's views for the documentation: docs/images/explorer_*.png.

    ATTNFORGE_CHROMIUM=$(command -v chromium) python scripts/screenshots.py http://127.0.0.1:8642/

takes them from an explorer that runs there: wide light pages, as a laptop shows them. With a folder as second argument
it writes there instead, and every page: laptop and phone, light and dark.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs/images"
VIEWS = {
    "line": "?view=line&construction=tensor_grid&sharpness=0.5&p=21",
    "heads": "?view=heads",
    "plane": "?view=plane",
    "temperature": "?view=temperature&construction=tensor_grid",
    "incontext": "?view=incontext",
    "graph": "?view=graph",
    "programs": "?view=programs",
    "diagnosis": "?view=diagnosis",
}
LAPTOP, PHONE, HEIGHT = 1200, 420, 860
PATIENCE = 120_000  # milliseconds
COLOURS = 256  # of a picture: maps in one scale of colours, and text, need no more


def main(address: str, folder: Path | None = None) -> None:
    """One picture a view, or four, once its certificate is there too."""
    looks = [("light", LAPTOP)] if folder is None else [(s, w) for s in ("light", "dark") for w in (LAPTOP, PHONE)]
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=os.environ["ATTNFORGE_CHROMIUM"], args=["--no-sandbox"])
        for view, query in VIEWS.items():
            for scheme, width in looks:
                page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
                shown(page, address + query, has_certificate=view != "diagnosis")
                name = f"explorer_{view}" if folder is None else f"{view}_{scheme}_{width}"
                place = (folder or IMAGES) / f"{name}.png"
                page.screenshot(path=place, full_page=True)
                page.close()
                with Image.open(place) as picture:
                    picture.convert("RGB").quantize(COLOURS).save(place, optimize=True)
        browser.close()


def shown(page: Any, address: str, has_certificate: bool) -> None:
    """The page, with all that comes by itself."""
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.wait_for_selector("#figure[data-milliseconds]")
    page.eval_on_selector("#why", "why => { why.open = false; }")
    if has_certificate:
        page.wait_for_selector("#certificate-body .status")
    page.wait_for_timeout(1500)


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
