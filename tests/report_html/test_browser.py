"""The page in a real browser: it opens, sorts, filters, fits a phone, asks nobody for anything."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from fuser.report.html import render
from tests.report_html.samples import hostile, long, real

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
SWITCHES = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)

pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None,
    reason="Chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)",
)
Open = Callable[[dict[str, Any]], Chrome]


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One browser for all, with a profile of its own, logging what it says and requests."""
    options = ChromeOptions()
    options.binary_location = str(BROWSER)
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(
        options=options, service=Service(str(DRIVER))
    )  # a path, so nothing is looked for or downloaded
    yield driver
    driver.quit()


@pytest.fixture
def shown(chrome: Chrome, tmp_path: Path) -> Open:
    """Renders a report, opens it from disk, and gives the browser."""

    def opened(report: dict[str, Any]) -> Chrome:
        path = tmp_path / "report.html"
        path.write_text(render(report), "utf-8")
        chrome.get_log("browser")
        chrome.get_log("performance")
        chrome.get(path.as_uri())
        return chrome

    sized(chrome, 1280)
    return opened


def sized(chrome: Chrome, width: int) -> None:
    """As wide as that."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def column(chrome: Chrome, table: str, number: int) -> list[str]:
    """What the cells of a column show, row by row."""
    cells = f"#{table} tbody td:nth-child({number})"
    return list(
        chrome.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(c => c.innerText)", cells
        )
    )


def head(chrome: Chrome, table: str, name: str) -> Any:
    """The button of a column."""
    buttons = chrome.find_elements(By.CSS_SELECTOR, f"#{table} th button")
    return next(b for b in buttons if b.text.startswith(name))


def asked(chrome: Chrome) -> list[str]:
    """Every address that was requested since the page was opened."""
    messages = (json.loads(entry["message"])["message"] for entry in chrome.get_log("performance"))
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def test_it_opens_without_a_complaint_and_asks_for_nothing(shown: Open) -> None:
    """One request, for the file itself; nothing on the console."""
    chrome = shown(real())
    assert chrome.title.startswith("onnx-fuser: ")
    assert chrome.get_log("browser") == []
    [own] = asked(chrome)
    assert own.startswith("file://")


def test_nothing_could_leave(shown: Open) -> None:
    """A script that tried would be refused: the server sees no one."""
    seen: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(204)
            self.end_headers()

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/"
        chrome = shown(real())
        attempt = """
            const [url, done] = arguments;
            const image = new Image();
            const ask = () => fetch(url + "fetch", {mode: "no-cors"});
            image.onerror = () => ask().then(() => done("left"), () => done("refused"));
            image.onload = () => done("left");
            image.src = url + "image";
        """
        answer = chrome.execute_async_script(attempt, address)
        server.shutdown()
        thread.join()
    assert answer == "refused"
    assert seen == []


def test_hostile_names_show_as_text(shown: Open) -> None:
    """No script of theirs runs, no element of theirs is there, and one can read them."""
    chrome = shown(hostile())
    assert chrome.execute_script("return window.owned") is None
    assert chrome.get_log("browser") == []
    count = "return document.querySelectorAll(arguments[0]).length"
    assert chrome.execute_script(count, "img, iframe, script:not(body > script:last-of-type)") == 0
    assert (
        "<script>window.owned=1</script>"
        in chrome.find_element(By.TAG_NAME, "h1").text
        + chrome.find_element(By.CSS_SELECTOR, "#sites-list td").text
    )
    assert len(asked(chrome)) == 1


def test_5000_rows_sort_and_filter(shown: Open) -> None:
    """By number and by text, up, down and back; what has no number stays last; a filter narrows both."""
    chrome = shown(long(5000))
    names = column(chrome, "sites-list", 1)
    assert names[:3] == ["value0", "value1", "value2"]
    assert len(names) == 100

    head(chrome, "sites-list", "output").click()
    assert column(chrome, "sites-list", 1)[:11][-2:] == [
        "value9",
        "value10",
    ]  # numbers in names count as such
    head(chrome, "sites-list", "output").click()
    assert column(chrome, "sites-list", 1)[0] == "value4999"
    heading = chrome.find_element(By.CSS_SELECTOR, "#sites-list th[aria-sort]")
    assert (heading.text[:6], heading.get_attribute("aria-sort")) == ("output", "descending")
    head(chrome, "sites-list", "output").click()
    assert column(chrome, "sites-list", 1)[0] == "value0"

    head(chrome, "sites-list", "slope").click()
    assert column(chrome, "sites-list", 1)[:2] == ["value1", "value2"]
    head(chrome, "sites-list", "slope").click()
    assert column(chrome, "sites-list", 1)[:2] == ["value4999", "value4997"]

    field = chrome.find_element(By.CSS_SELECTOR, "#sites-list input")
    field.send_keys("value123")
    assert sorted(column(chrome, "sites-list", 1)) == sorted(
        ["value123", *(f"value123{i}" for i in range(10))]
    )
    assert chrome.find_element(By.CSS_SELECTOR, "#sites-list output").text == "11 of 5000 rows"
    field.send_keys(" nothing")
    assert column(chrome, "sites-list", 1) == []
    field.clear()
    field.send_keys(Keys.BACKSPACE)
    chrome.execute_script("arguments[0].dispatchEvent(new Event('input'))", field)
    chrome.find_element(By.CSS_SELECTOR, "#sites-list .all").click()
    assert len(column(chrome, "sites-list", 1)) == 5000
    assert len(column(chrome, "declined-list", 1)) == 100


def test_long_names_widen_no_table(shown: Open) -> None:
    """Sentences break within a name before the last column is pushed out of sight."""
    report = real()
    name = "/block/" + "BatchNormalization_output_0_DequantizeLinear_Output" * 2
    miss = {**long(1)["declined"][0], "node": name, "reason": f"reads '{name}'", "hint": ""}
    finding = {"code": "E1", "severity": "error", "node": name, "message": name, "fix": name, "rule": "r"}
    report["declined"] = [miss]
    report["target"]["findings"] = [finding]
    chrome = shown(report)
    for table in ("declined-list", "findings-list"):
        region = f"document.querySelector('#{table} .scroll')"
        assert chrome.execute_script(f"return {region}.scrollWidth - {region}.clientWidth") <= 0, table


def test_it_works_from_the_keyboard(shown: Open) -> None:
    """Tab reaches the skip link, the sections, a filter and the headings; Enter sorts."""
    chrome = shown(long(50))
    visited: list[str] = []
    for _ in range(40):
        chrome.switch_to.active_element.send_keys(Keys.TAB)
        element = chrome.switch_to.active_element
        visited.append(element.text or element.tag_name)
        if element.text.startswith("slope"):
            break
    assert visited[0] == "To the summary"
    assert visited[1:3] == ["Summary", "Kinds"]
    assert "input" in visited
    chrome.switch_to.active_element.send_keys(Keys.ENTER)
    assert column(chrome, "sites-list", 1)[:2] == ["value1", "value2"]
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert chrome.execute_script(outline) == "solid"


@pytest.mark.parametrize(("width", "seen", "not_seen"), [(1280, "wide", "narrow"), (400, "narrow", "wide")])
def test_it_fits(shown: Open, chrome: Chrome, width: int, seen: str, not_seen: str) -> None:
    """The page is no wider than the screen, hostile names or not, and the charts are those for it."""
    for report in (long(20), hostile()):
        sized(chrome, width)
        shown_at = shown(report)
        sized(chrome, width)
        assert shown_at.execute_script("return document.documentElement.scrollWidth") <= width
        charts = shown_at.find_elements(By.CSS_SELECTOR, f"svg.chart.{seen}")
        assert charts
        assert all(c.is_displayed() for c in charts)
        assert not any(
            c.is_displayed() for c in shown_at.find_elements(By.CSS_SELECTOR, f"svg.chart.{not_seen}")
        )


def test_on_a_phone_cells_say_which_column_they_are(shown: Open, chrome: Chrome) -> None:
    """A row is a card."""
    shown(long(20))
    sized(chrome, 400)
    label = "return getComputedStyle(document.querySelector('#sites-list td'), '::before').content"
    assert chrome.execute_script(label).replace('" "', "") == '"output: "'


def test_it_follows_light_and_dark(shown: Open, chrome: Chrome) -> None:
    """The page, and the charts with it."""
    shown(real())
    colours = """
        const axis = document.querySelector("svg.chart text");
        return [getComputedStyle(document.body).backgroundColor, getComputedStyle(axis).fill];
    """
    found = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        found.append(chrome.execute_script(colours))
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    (light, light_text), (dark, dark_text) = found
    assert light == "rgb(255, 255, 255)"
    assert dark != light
    assert dark_text != light_text


def test_without_scripts_everything_is_there(shown: Open, chrome: Chrome) -> None:
    """All rows, and no controls that would do nothing."""
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        shown(long(150))
        rows = chrome.find_elements(By.CSS_SELECTOR, "#sites-list tbody tr")
        tools = chrome.find_element(By.CSS_SELECTOR, "#sites-list .tools")
        assert (len(rows), tools.is_displayed()) == (150, False)
    finally:
        chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
