"""A browser judges our report: Chromium opens a page of two runs, uses it as a reader would, and
says what it found. It is steered by the W3C's WebDriver protocol, which is plain JSON over HTTP.

With REPORT_SCREENSHOT=FILE.png it also leaves a picture of the page."""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for "this is an element"
HOSTILE = "layer0/</script><b>x</b>\"'&<!-- ×日本"
TENSORS = ["embed/tokens", "layer0/ffn/up/linear", HOSTILE]


class Browser:
    def __init__(self, address, folder):
        self.address = address
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900",
                     f"--user-data-dir={folder}/profile"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments},
                  "goog:loggingPrefs": {"browser": "ALL"}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.address += "/session/" + session["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {json.load(error)['value']['message']}") from None

    def open(self, path):
        self.call("POST", "/url", {"url": Path(path).resolve().as_uri()})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def all(self, selector):
        body = {"using": "css selector", "value": selector}
        return [found[ELEMENT] for found in self.call("POST", "/elements", body)]

    def count(self, selector):
        return len(self.all(selector))

    def click(self, selector, index=0):
        element = self.all(selector)[index]
        # To the middle: at the edges the legend and the panel lie over the page.
        self.run("arguments[0].scrollIntoView({block: 'center'})", {ELEMENT: element})
        self.call("POST", f"/element/{element}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.all(selector)[0]}/value", {"text": text})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def screenshot(self, path, width=1200, height=None):
        self.call("POST", "/window/rect", {"width": width, "height": 900})
        if height is None:
            height = self.run("return document.documentElement.scrollHeight") + 150
        self.call("POST", "/window/rect", {"width": width, "height": height})
        Path(path).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def complaints(self):
        log = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] in ("WARNING", "SEVERE")]


@contextlib.contextmanager
def browser():
    """Chromium with an empty profile, gone again afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            line = next((line for line in driver.stdout if "started successfully" in line), "")
            port = re.search(r"on port (\d+)", line)
            assert port, "chromedriver did not start"
            opened = Browser(f"http://127.0.0.1:{port[1]}", folder)
            try:
                yield opened
            finally:
                opened.call("DELETE", "")
        finally:
            driver.terminate()
            driver.wait()


def tensor(name, role, factor):
    return {"name": name, "role": role, "format": "e5m2" if role.startswith("grad") else "e4m3",
            "count": 1000, "mean": 0.0, "std": factor, "rms": factor, "abs_min": factor / 8,
            "abs_max": factor * 4, "zero": 0.1, "subnormal": 0.02, "saturated": 0.0,
            "nonfinite": 0.005, "lost": 0.01 * factor, "first_exponent": -2,
            "histogram": [100, 300, 400, 95]}


def write_lines(path, objects):
    path.write_text("".join(json.dumps(line) + "\n" for line in objects))


def write_run(folder, method, factor):
    """Three tensors in two roles, measured at three steps, and one loss that was not finite."""
    folder.mkdir()
    config = {"model": "char_lm", "method": method, "precision": "fp8", "steps": 40, "depth": 2}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "machine.json").write_text(json.dumps({"processor": HOSTILE, "threads": 2}))
    metrics = [{"step": step, "loss": None if step == 7 else factor * 3 / step + 1, "lr": 0.1,
                "tokens_per_s": 1000.0} for step in range(1, 41)]
    metrics += [{"step": step, "valid_loss": 2.0, "valid_bpc": 3.0 - step / 40}
                for step in (20, 40)]
    write_lines(folder / "metrics.jsonl", metrics)
    scales = [{"step": step, "tensors": [tensor(name, role, factor * (1 + step / 40))
                                         for role in ("activation", "gradx") for name in TENSORS]}
              for step in (0, 20, 40)]
    write_lines(folder / "scales.jsonl", scales)
    write_lines(folder / "events.jsonl", [
        {"step": 10, "kind": "underflow", "tensor": HOSTILE, "role": "gradx", "format": "e5m2",
         "share": 0.013, "text": HOSTILE},
        {"step": 12, "kind": "skipped step", "text": "a gradient was not finite"}])


def expect(what, got, wanted):
    assert got == wanted, f"{what}: expected {wanted!r}, got {got!r}"


def check_charts(page):
    lengths = page.run("return [...document.querySelectorAll('#loss-chart path.series')]"
                       ".map(path => path.getAttribute('d').length)")
    expect("curves of training loss", len(lengths), 2)
    assert min(lengths) > 100, f"a curve is empty: {lengths}"
    gaps = page.run("return document.querySelector('#loss-chart path.series')"
                    ".getAttribute('d').split('M').length - 1")
    expect("parts of a curve with a gap", gaps, 2)
    expect("curves of validation", page.count("#valid-chart path.series"), 2)
    expect("results", page.count("#results tbody tr"), 2)
    expect("points", page.count("#scale-plot circle.tensor"), 12)
    expect("rows", page.count("#tensor-table tbody tr"), 12)
    expect("events", page.count("#events li"), 4)
    assert page.count("#scale-plot path.limit") > 0, "no limits of formats"


def check_search(page):
    page.type("#tensor-search", "FFN up")
    expect("points found", page.count("#scale-plot circle.tensor"), 4)
    expect("rows found", page.count("#tensor-table tbody tr"), 4)
    page.click("#role-boxes input", 0)
    expect("points of one role", page.count("#scale-plot circle.tensor"), 2)
    expect("rows of one role", page.count("#tensor-table tbody tr"), 2)
    page.click("#role-boxes input", 0)
    page.type("#tensor-search", " nothing")
    expect("points of no tensor", page.count("#scale-plot circle.tensor"), 0)
    page.type("#tensor-search", "\ue003" * 20)  # backspaces
    expect("points without a search", page.count("#scale-plot circle.tensor"), 12)


def check_histogram(page):
    assert not page.run("return document.querySelector('#histogram-panel').checkVisibility()")
    openers = {"a point": lambda: page.click("#scale-plot circle.tensor", 5),
               "a row": lambda: page.click("#tensor-table tbody tr"),
               "Enter on a row": lambda: page.type("#tensor-table tbody tr:nth-child(2)", "\ue007"),
               "an event": lambda: page.click("#events li button")}
    for name, opener in openers.items():
        opener()
        # Four binades, zero and what is not finite, in both runs.
        expect(f"bars after {name}", page.count("#histogram-panel rect.bar"), 12)
        assert "1,000" in page.text("#histogram-panel"), "the numbers are not in the panel"
        page.type("body", "\ue00c")  # Escape
        assert not page.run("return document.querySelector('#histogram-panel').checkVisibility()")


def check_controls(page):
    page.click("#legend button", 1)
    expect("curves of a hidden run", page.count("#loss-chart path.series"), 1)
    expect("points of a hidden run", page.count("#scale-plot circle.tensor"), 6)
    expect("rows of a hidden run", page.count("#tensor-table tbody tr"), 6)
    page.click("#legend button", 1)
    expect("curves of both runs", page.count("#loss-chart path.series"), 2)
    height = "return document.querySelector('#scale-plot circle.tensor').getAttribute('cy')"
    last = page.run(height)
    page.run("const slider = document.querySelector('#scale-step'); slider.value = 0;"
             "slider.dispatchEvent(new Event('input'))")
    assert page.run(height) != last, "the slider does not move points"
    for box in ("#loss-log-x", "#loss-log-y"):
        page.click(box)
        expect(f"curves after {box}", page.count("#loss-chart path.series"), 2)
    first = "return document.querySelector('#results tbody tr').textContent"
    page.click("#results th button")
    ascending = page.run(first)
    page.click("#results th button")
    assert page.run(first) != ascending, "results are not sorted by a press on their heading"


def check_hostile_names(page):
    markup = "return [...document.querySelectorAll('b')].filter(b => b.textContent === 'x').length"
    expect("markup that came from names", page.run(markup), 0)
    for selector in ("#events", "#machine", "#tensor-table"):
        assert HOSTILE in page.text(selector), f"{selector} does not show {HOSTILE}"
    expect("title", page.text("h1"), HOSTILE)
    expect("window title", page.run("return document.title"), HOSTILE)


def check(program):
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        folder = Path(folder)
        write_run(folder / "unit", "unit", 1.0)
        write_run(folder / "none", "none", 0.01)
        subprocess.run([program, "report", folder / "unit", folder / "none", "-o",
                        folder / "r.html", "--title", HOSTILE], check=True, capture_output=True)
        page.open(folder / "r.html")
        for part in (check_charts, check_search, check_histogram, check_controls,
                     check_hostile_names):
            part(page)
        expect("loaded from outside", page.run(
            "return performance.getEntriesByType('resource').map(entry => entry.name)"), [])
        if "REPORT_SCREENSHOT" in os.environ:
            page.click("#tensor-table tbody tr")
            page.screenshot(os.environ["REPORT_SCREENSHOT"])
        expect("complaints of the browser", page.complaints(), [])


if __name__ == "__main__":
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        print("report: Chromium is not installed and could not be; skipped")
        sys.exit(0)
    try:
        check(sys.argv[1])
    except AssertionError as error:
        sys.exit(f"report: {error}")
    print("report: a browser shows two runs, finds tensors and opens histograms")
