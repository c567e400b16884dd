"""A real Chromium for the tests and the benchmark of the report."""

import base64
import json
import os
import shutil
from contextlib import contextmanager

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def missing():
    """What is needed and not installed, None if all is there."""
    if not any(shutil.which(name) for name in CHROMIUMS):
        return "Chromium"
    return None if shutil.which("chromedriver") else "chromedriver"


class Browser:
    """A page in headless Chromium: what it logs, what it asks for, what it shows."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path):
        """Load a file as a double click would."""
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(path.resolve().as_uri())
        self.wait("performance.getEntriesByName('softkin-complete').length > 0")
        self.run("document.documentElement.style.scrollBehavior = 'auto'")  # or clicks would aim at what still moves
        return self

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition):
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 60, poll_frequency=0.02).until(lambda _: self.run(f"return {condition}"))

    def console(self):
        """Everything that the page or the browser complained of."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Every address that was asked for since the page was opened, its own aside."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [
            item["request"]["url"]
            for item in asked
            if item.get("type") != "Document" and not item["request"]["url"].startswith("data:")
        ]

    def set(self, key, value):
        """Move a slider, or type into a field, and let the page hear of it."""
        self.run(
            "const node = document.querySelector(`[data-key='${arguments[0]}']`); node.value = arguments[1];"
            "node.dispatchEvent(new Event('input', {bubbles: true}));",
            key,
            str(value),
        )

    def choose(self, key, value):
        """Choose an option."""
        self.run(
            "document.querySelector(`input[data-key='${arguments[0]}'][value='${arguments[1]}']`).click()",
            key,
            str(value),
        )

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def texts(self, selector):
        return self.run(
            "return Array.from(document.querySelectorAll(arguments[0]), (node) => node.textContent)", selector
        )

    def number(self, key):
        """What an output shows, in full."""
        return float(self.run("return document.querySelector(`output[data-key='${arguments[0]}']`).dataset.value", key))

    def violations(self, modules, part=None, least="serious"):
        """What axe-core, from a folder of npm's modules, finds in the page or a part of it, of this impact at least."""
        impacts = ["minor", "moderate", "serious", "critical"]
        self.run((modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
        return self.run(
            "return axe.run(arguments[0] || document, {resultTypes: ['violations']}).then((r) => r.violations"
            ".filter((v) => arguments[1].includes(v.impact)).map((v) => [v.id, v.nodes.slice(0, 4).map((n) => "
            "n.html.slice(0, 160) + ' ' + (n.any[0] ? n.any[0].message.slice(0, 160) : ''))]))",
            part,
            impacts[impacts.index(least) :],
        )

    def resize(self, width, height, *, mobile=False):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile},
        )
        self.wait("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def media(self, *, scheme="light", kind=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})

    def wider_than_a4(self):
        """What the printed page holds that is wider than the paper, or than the part that cuts it."""
        self.media(kind="print")
        self.resize(688, 1000)  # A4 less its margins, in CSS pixels
        self.run("dispatchEvent(new Event('beforeprint'))")
        wide = self.run(
            "return Array.from(document.querySelectorAll('main *'), (node) => [node.tagName, node.className.baseVal ?? "
            "node.className, node.getBoundingClientRect().right]).filter(([, , right]) => right > 690)"
            ".concat(Array.from(document.querySelectorAll('main *')).filter((node) => node.clientWidth && "
            "node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== 'visible')"
            ".map((node) => [node.tagName, node.className, node.textContent.slice(0, 40)]))"
        )
        self.run("dispatchEvent(new Event('afterprint'))")
        self.media()
        self.resize(1280, 900)
        return wide

    def catch(self):
        """Keep what the page would save as files."""
        self.run(
            "window.saved = []; URL.createObjectURL = (blob) => { window.saved.push(blob); return 'data:,'; };"
            "HTMLAnchorElement.prototype.click = function () {};"
        )

    def saved(self):
        """What the page last handed over as a file: (type, text or bytes)."""
        self.wait("window.saved.length > 0")
        return self.run(
            "const blob = window.saved.pop(); return blob.type === 'image/png' ? blob.arrayBuffer().then((b) => "
            "[blob.type, Array.from(new Uint8Array(b))]) : blob.text().then((text) => [blob.type, text])"
        )

    def screenshot(self, path):
        """The whole page as it is now."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(answer["data"]))
        return path


def picture(content):
    """The PNG of these bytes."""
    import io

    from PIL import Image

    return Image.open(io.BytesIO(bytes(content))).convert("RGB")


@contextmanager
def chromium():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = next(path for path in map(shutil.which, CHROMIUMS) if path)
    flags = [
        "--headless=new",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1280,900",
        "--disable-dev-shm-usage",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags.append("--no-sandbox")  # Chromium's sandbox refuses root
    for flag in flags:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(180)  # axe takes its time on a large page and a busy machine
    try:
        yield Browser(driver)
    finally:
        driver.quit()
