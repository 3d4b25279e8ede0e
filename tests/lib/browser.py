"""A headless Chromium, driven by its own driver, which takes JSON over HTTP: no package is needed."""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

QUIET = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync", *QUIET]


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return int(server.getsockname()[1])


class Browser:
    def __init__(self, session: str) -> None:
        self._session = session

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return ask(method, self._session + path, body)

    def open(self, url: str, width: int = 1280, dark: bool = False) -> None:
        """`width` is the page's, which windows narrower than 500 pixels cannot have by themselves."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.tell_chromium("Emulation.setDeviceMetricsOverride", metrics)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell_chromium("Emulation.setEmulatedMedia", {"features": [theme]})
        self._ask("POST", "/url", {"url": url})

    def tell_chromium(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; its arguments are in `arguments`."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, script: str, seconds: float = 60) -> Any:
        """The first value that is true of what a script returns."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"it stayed {value!r}: {script}"
            time.sleep(0.1)
        return value

    def save(self, path: Path) -> None:
        """The whole page as a picture."""
        shot = self.tell_chromium("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(b64decode(shot["data"]))


def ask(method: str, url: str, body: Any = None) -> Any:
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(json.load(error)["value"]["message"]) from None


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Skips the test where there is none. The folder gets what the browser writes."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver (on Debian, the packages chromium and chromium-driver)")
    address = f"http://localhost:{(port := free_port())}"
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                ask("GET", f"{address}/status")
                break
            except OSError:
                time.sleep(0.1)
        options = {"binary": chromium, "args": [*OPTIONS, f"--user-data-dir={folder / 'profile'}"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        session = f"{address}/session/{ask('POST', f'{address}/session', wanted)['sessionId']}"
        yield Browser(session)
        ask("DELETE", session)
    finally:
        process.terminate()
        process.wait()
