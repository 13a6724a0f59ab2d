"""The page in a real browser: no complaint of its console, nothing foreign acts, search and folds work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envsnap.cli._sides import load_side
from envsnap.report.page import Content, render
from tests.report.made import hostile_pair, pair
from tests.report.test_page import made

WIDE, PHONE = 1400, 390
EXAMPLES = Path(__file__).parents[2] / "examples" / "eagle3"

VISIBLE = """
const rows = [...document.querySelectorAll("table.find tbody tr")];
return rows.filter((r) => r.checkVisibility({contentVisibilityAuto: false})).map((r) => r.textContent);
"""
OVERFLOW = "return document.documentElement.scrollWidth - window.innerWidth"


@pytest.fixture(scope="module")
def content() -> Content:
    return made()


def open_(browser: Any, content: Content, folder: Path, width: int = WIDE) -> None:
    """Write the page, and open it in a window of that width; what the console said before is forgotten."""
    page = folder / "report.html"
    page.write_text(render(content), encoding="utf-8")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE},
    )
    browser.get_log("browser")
    browser.get(page.as_uri())


def search(browser: Any, words: str) -> str:
    """Put words into the search, and wait until it has answered; what it says of the number of rows."""
    return str(
        browser.execute_async_script(
            "const [words, done] = arguments, end = performance.now() + 20000;"
            "const field = document.getElementById('search'), found = document.getElementById('found');"
            "field.value = words; found.textContent = ''; field.dispatchEvent(new Event('input'));"
            "(function look() {"
            " if (found.textContent || performance.now() > end) done(found.textContent);"
            " else setTimeout(look, 20); })()",
            words,
        )
    )


@pytest.mark.parametrize("width", [WIDE, 900, 768, PHONE])
def test_the_console_has_nothing_to_say_and_nothing_overflows(
    browser: Any, content: Content, tmp_path: Path, width: int
) -> None:
    open_(browser, content, tmp_path, width)
    assert browser.get_log("browser") == []
    assert browser.execute_script(OVERFLOW) <= 0


@pytest.fixture(scope="module")
def real() -> Content:
    """Runs of SGLang on two H200 GPUs."""
    fast, slow = (load_side(str(EXAMPLES / name)) for name in ("with-graphs", "without-graphs"))
    return pair(fast, slow)


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_one_side_and_real_runs_of_two_gpus(browser: Any, real: Content, tmp_path: Path, width: int) -> None:
    for shown in (Content(real.sides[1:], ("slow",)), real):
        open_(browser, shown, tmp_path, width)
        browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true;")
        assert browser.get_log("browser") == []
        assert browser.execute_script(OVERFLOW) <= 0


def test_hostile_names_are_inert(browser: Any, tmp_path: Path) -> None:
    open_(browser, hostile_pair(), tmp_path)
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true;")
    search(browser, "onerror")
    assert browser.execute_script("return window.harmed") is None
    assert browser.execute_script("return document.querySelectorAll('script, style, img, iframe, link').length") == 2
    assert browser.execute_script("return document.querySelectorAll('h1').length") == 1
    assert browser.get_log("browser") == []
    assert "<script>window.harmed=1</script>" in browser.find_element("tag name", "h1").text + browser.title


def test_the_policy_stops_what_the_page_does_not_hold(browser: Any, content: Content, tmp_path: Path) -> None:
    open_(browser, content, tmp_path)
    browser.execute_script(
        "const s = document.createElement('style'); s.textContent = 'body { color: red }'; document.head.append(s);"
        "const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i);"
        "document.body.setAttribute('style', 'color: red');"
    )
    said = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert "style-src" in said
    assert browser.execute_script("return getComputedStyle(document.body).color") != "rgb(255, 0, 0)"


def test_search_finds_in_folds_and_leaves_nothing_else(browser: Any, content: Content, tmp_path: Path) -> None:
    open_(browser, content, tmp_path)
    before = browser.execute_script(VISIBLE)
    assert not [row for row in before if "gpu[0-1].name" in row]
    assert search(browser, "gpu[1].name") == "1 row"
    assert browser.execute_script(VISIBLE) == ["gpu[0-1].nameNVIDIA H200"]
    assert search(browser, "no such thing anywhere") == "0 rows"
    assert browser.execute_script(VISIBLE) == []
    browser.find_element("id", "search").send_keys("\ue00c")  # Escape
    assert browser.execute_script(VISIBLE) == before


def test_the_keyboard_reaches_search_and_folds(browser: Any, content: Content, tmp_path: Path) -> None:
    open_(browser, content, tmp_path)
    body = browser.find_element("tag name", "body")
    body.send_keys("/")
    assert browser.execute_script("return document.activeElement.id") == "search"
    assert browser.execute_script("return document.getElementById('search').value") == ""
    summary = browser.find_element("css selector", "#suspects details:not([open]) summary")
    summary.send_keys("\n")
    assert summary.find_element("xpath", "..").get_attribute("open") is not None
    reached = browser.execute_script(
        "return [...document.querySelectorAll('summary, a, button, input, [tabindex]')].every((e) => e.tabIndex >= -1)"
    )
    assert reached


def test_what_is_shown_of_time_can_be_chosen(browser: Any, content: Content, tmp_path: Path) -> None:
    open_(browser, content, tmp_path)
    shown = "return [0, 1].map((i) => document.querySelector('figure .view-' + i).checkVisibility())"
    if not browser.find_elements("id", "view-1"):
        pytest.fail("there is no choice of time")
    assert browser.execute_script(shown) == [True, False]
    browser.find_element("id", "view-1").click()
    assert browser.execute_script(shown) == [False, True]


def test_light_dark_and_print(browser: Any, content: Content, tmp_path: Path) -> None:
    open_(browser, content, tmp_path)
    ground = "return getComputedStyle(document.body).backgroundColor"
    seen = {}
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})
        seen[scheme] = browser.execute_script(ground)
    assert seen["light"] != seen["dark"]
    browser.find_element("id", "theme").click()
    assert browser.execute_script(ground) == seen["light"]
    browser.find_element("id", "theme").click()
    assert browser.execute_script(ground) == seen["dark"]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert browser.execute_script(ground) == seen["light"]
    assert browser.execute_script("return getComputedStyle(document.getElementById('equal')).display") == "none"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    printed = browser.execute_cdp_cmd("Page.printToPDF", {})
    assert len(printed["data"]) > 10_000
    assert browser.get_log("browser") == []


def test_a_moment_is_read_at_in_all_charts(browser: Any, content: Content, tmp_path: Path) -> None:
    open_(browser, content, tmp_path)
    browser.execute_script(
        "const m = document.getElementById('moment'); m.value = 500; m.dispatchEvent(new Event('input'));"
    )
    captions = browser.execute_async_script(
        "const done = arguments[0];"
        "requestAnimationFrame(() => requestAnimationFrame(() => done("
        "  [...document.querySelectorAll('.gauge')].filter((g) => g.textContent.startsWith('SM clock'))"
        "  .flatMap((g) => [...g.querySelectorAll('figcaption')].map((c) => c.textContent)))))"
    )
    # In the middle of the window the second side's last GPU is held down.
    assert [c.split("B ")[0] for c in captions] == ["GPU 0A 1980, 1980, 1980", "GPU 1A 1980, 1980, 1980"]
    assert all(1170 < float(v) < 1230 for v in captions[1].split("B ")[1].split(", "))
    assert captions[0].endswith("B 1980, 1980, 1980")
    assert browser.get_log("browser") == []
