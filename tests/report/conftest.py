from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

QUIET = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
"""A browser that asks nobody anything, whatever a page wants."""


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real browser, one for all tests of a process; skipped, with the reason, where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium (pip install -e .[dev])")
    exceptions = pytest.importorskip("selenium.common.exceptions")
    program = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("no browser (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    log = tmp_path_factory.mktemp("browser") / "driver.log"
    service = webdriver.ChromeService(driver, log_output=str(log))
    try:
        started = webdriver.Chrome(options=options, service=service)
    except exceptions.SessionNotCreatedException as error:  # a container that lets no browser start
        service.stop()
        pytest.skip(f"the browser does not start: {str(error.msg).splitlines()[0]}")
    started.set_script_timeout(120)
    yield started
    started.quit()
