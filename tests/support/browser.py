"""A headless browser for tests of the page: where it is, and a tab that records whatever the page says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
PHONE: Final = {"width": 390, "height": 844}


def browser_folder() -> Path:
    return Path(os.environ.get("AITER_PREBUILT_BROWSER", str(ROOT / "build" / "browser")))


class Tab:
    """A page with what it said: any word of the console, any error, any address that is no file."""

    def __init__(self, context: Any, site: str) -> None:
        self.context, self.site, self.said = context, site, list[str]()
        self.page = context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", self._record_request)
        self.page.on("dialog", self._dialog)

    def _record_request(self, sent: Any) -> None:
        if not sent.url.startswith(("file:", "data:", "about:")):
            self.said.append(sent.url)

    def _dialog(self, dialog: Any) -> None:
        self.said.append("a dialog")
        dialog.dismiss()

    def go(self, view: str) -> Any:
        self.page.goto("about:blank")
        self.page.goto(f"{self.site}#/{view}")
        self.page.wait_for_selector("main h1")
        return self.page

    def rows(self) -> list[str]:
        found: list[str] = self.page.locator("main tbody tr td.first a.name").all_inner_texts()
        return found


def picture(page: Any, name: str) -> None:
    folder = os.environ.get("AITER_PREBUILT_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))
