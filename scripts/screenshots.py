"""Pictures of the explorer's views for the documentation: docs/images/explorer-*.png.

    ATTNFORGE_CHROMIUM=$(command -v chromium) python scripts/screenshots.py http://127.0.0.1:8642/

takes them from an explorer that runs there; the wide light pages, as a laptop shows them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
SIZE = {"width": 1400, "height": 860}
PATIENCE = 120_000  # milliseconds


def main(address: str) -> None:
    """One picture a view, once its certificate is there too."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=os.environ["ATTNFORGE_CHROMIUM"], args=["--no-sandbox"])
        for view, query in VIEWS.items():
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.set_default_timeout(PATIENCE)
            page.goto(address + query)
            page.wait_for_selector("#figure[data-milliseconds]")
            page.eval_on_selector("#why", "why => { why.open = false; }")
            if view != "diagnosis":
                page.wait_for_selector("#certificate-body .status")
            page.wait_for_timeout(1500)
            page.screenshot(path=IMAGES / f"explorer-{view}.png", full_page=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
