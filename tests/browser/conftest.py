"""Fixtures of the tests in a browser: the browser, a made page, and a tab that must say nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from support import page as made
from support.browser import NAMES, Tab, browser_folder

from build_tools.site import write


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    folder = browser_folder()
    path = next((str(folder / name) for name in NAMES if (folder / name).is_file()), None) or next(
        (found for name in NAMES if (found := shutil.which(name))), None
    )
    if path is None:
        pytest.skip(f"no browser in {folder} and none of {', '.join(NAMES)} on the path: nox -s browser")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder / "lib")}
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: nox -s browser"
    )
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"], env=environment)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("a folder")
    write.write(folder, made.content())
    return (folder / "index.html").as_uri()


@pytest.fixture
def tab(browser: Any, site: str) -> Iterator[Tab]:
    # uPlot asks the browser's language, which a machine without one leaves strange
    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-US")
    one = Tab(context, site)
    yield one
    context.close()
    assert one.said == []
