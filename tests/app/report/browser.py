"""A real browser without a window, driven over chromedriver's own HTTP interface: nothing to install from Python."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",  # what is scrolled to is there at once
    "--window-size=1280,900",
]
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Right": "\ue014", "Down": "\ue015", "End": "\ue010", "Home": "\ue011"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def programs() -> tuple[str, str] | None:
    """The browser and its driver; None where one is missing."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((found for name in names if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """One window."""

    def __init__(self, browser: str, driver: str) -> None:
        self.profile = tempfile.mkdtemp(prefix="equipoise-browser-")
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.driver = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ}
        )
        assert self.driver.stdout is not None
        started = next(line for line in self.driver.stdout if "successfully on port" in line)
        found = re.search(r"on port (\d+)", started)
        assert found is not None
        self.address = f"http://127.0.0.1:{found[1]}"
        self.session = ""
        options = {"binary": browser, "args": [*FLAGS, f"--user-data-dir={self.profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        try:
            self.session = "/session/" + self._ask("/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._ask("", method="DELETE")
        finally:
            self._stop()

    def open(self, page: Path) -> None:
        """Load a page from disk; what was logged before is forgotten."""
        self.log("browser"), self.log("performance")
        self._ask("/url", {"url": page.resolve().as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a piece of JavaScript returns."""
        return self._ask("/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, script: str, wanted: Any) -> None:
        """Wait for what the browser does in its own time."""
        while self.run(script) != wanted:
            time.sleep(0.02)

    def click(self, css: str) -> None:
        self._ask(f"/element/{self._find(css)}/click", {})

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus."""
        active = self._ask("/element/active", method="GET")[ELEMENT]
        text = "".join(KEYS.get(key, key) for key in keys)
        self._ask(f"/element/{active}/value", {"text": text})

    def hover(self, css: str) -> None:
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self._find(css)}}
        self._ask("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def text(self, css: str) -> str:
        return str(self._ask(f"/element/{self._find(css)}/text", method="GET"))

    def protocol(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since it was last asked for."""
        return list(self._ask("/se/log", {"type": kind}))

    def requests(self) -> list[str]:
        """Addresses that the page asked for, whether or not it got them."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def _stop(self) -> None:
        self.driver.terminate()
        self.driver.communicate()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _find(self, css: str) -> str:
        return str(self._ask("/element", {"using": "css selector", "value": css})[ELEMENT])

    def _ask(self, path: str, body: dict[str, Any] | None = None, *, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + self.session + path, data, headers, method=method)
        try:
            with self.opener.open(request) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()[:500]}") from None
