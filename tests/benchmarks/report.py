"""How large the page is, how long it takes to make, and how long a browser takes to open it.

Run: python -m tests.benchmarks.report [FAST SLOW]

Without sides: the state of two real H200 runs, with an hour of samples of eight GPUs and ten workers for each of three
runs a side. Target: under 3 MB, opens in under 1 s (load event and first paint, from a file, the median of five).
"""

from __future__ import annotations

import gzip
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from envsnap.cli._samples import load_samples
from envsnap.cli._sides import load_side
from envsnap.explain import Side
from envsnap.report.page import Content, render
from tests.report.conftest import QUIET
from tests.report.made import pair, sampled

EXAMPLES = ("examples/eagle3/with-graphs", "examples/eagle3/without-graphs")
HOUR = 3600
RUNS = 3
WORKERS = ["main", "detokenizer", *(f"scheduler_TP{i}" for i in range(8))]

_TIMES = """
const [load] = performance.getEntriesByType("navigation");
const [paint] = performance.getEntriesByName("first-contentful-paint");
return [load.loadEventEnd, paint ? paint.startTime : null, document.querySelectorAll("*").length];
"""


def hour() -> Content:
    """Two sides of three runs of an hour each."""
    sides = []
    for name in EXAMPLES:
        first, *_ = load_side(name).runs
        runs = [replace(first, id=f"{first.id}-{i}", index=i) for i in range(RUNS)]
        sides.append(Side.of_runs(runs, name))
    return sampled(sides, HOUR, 8, WORKERS)


def named(names: list[str]) -> Content:
    """Two sides as the verb takes them."""
    sides = [load_side(name) for name in names]
    held = {}
    for name, side in zip(names, sides):
        held.update(load_samples(name, side)[0])
    return pair(sides[0], sides[1], held)


def opened(page: Path) -> str:
    """How long a browser takes, in words."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        return "not opened: there is no chromium here"
    from selenium import webdriver

    options: Any = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])):
        options.add_argument(argument)
    browser: Any = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        times = []
        for _ in range(5):
            browser.get("about:blank")
            browser.execute_cdp_cmd("Performance.disable", {})
            browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
            browser.get(page.as_uri())
            metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
            cpu = next(m["value"] for m in metrics if m["name"] == "TaskDuration")
            times.append([*browser.execute_script(_TIMES), 1000 * cpu])
        load, paint, count, cpu = (statistics.median(t[i] for t in times if t[i] is not None) for i in range(4))
        began = time.perf_counter()
        browser.execute_async_script(
            "const done = arguments[0], field = document.getElementById('search');"
            "const found = document.getElementById('found');"
            "new MutationObserver(() => done()).observe(found, {childList: true});"
            "field.value = 'gpu'; field.dispatchEvent(new Event('input'))"
        )
        search = time.perf_counter() - began
    finally:
        browser.quit()
    return (
        f"load {load:.0f} ms, first paint {paint:.0f} ms, {cpu:.0f} ms CPU of its thread, {count:,.0f} elements; "
        f"first search {search * 1000:.0f} ms"
    )


def main() -> None:
    """Print the figures."""
    content = named(sys.argv[1:3]) if len(sys.argv) > 2 else hour()
    began = time.perf_counter()
    text = render(content)
    seconds = time.perf_counter() - began
    data = text.encode()
    print(f"{len(data) / 1e6:.2f} MB ({len(gzip.compress(data)) / 1e6:.2f} MB gzipped), made in {seconds:.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_bytes(data)
        print(opened(page))


if __name__ == "__main__":
    main()
