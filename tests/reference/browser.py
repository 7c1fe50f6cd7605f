"""A real browser to open pages in: Debian's chromium, spoken to over a pipe in its DevTools protocol."""

import base64
import json
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from reference.system import need_browser

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_PATIENCE = 60.0
"""Seconds to wait for an answer, on a machine that may be busy with other things."""


class BrowserError(RuntimeError):
    """What the browser complained about, or that it fell silent."""


class Page:
    """One tab. `events` holds all that it reported: console messages, exceptions, requests."""

    def __init__(self, process: subprocess.Popen[bytes]):
        self._process = process
        self._unread = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    @classmethod
    @contextmanager
    def opened(cls, profile: Path) -> Iterator[Self]:
        """A tab of a new browser that keeps its files in `profile` and is closed at the end."""
        program = need_browser()
        # Chromium reads commands from descriptor 3 and answers on 4; a shell can put our pipes there.
        wired = ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1', "sh"]
        command = [*wired, program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        page = cls(process)
        try:
            page._attach()
            yield page
        finally:
            page._close()

    def _attach(self) -> None:
        (target,) = (one for one in self._targets() if one["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _targets(self) -> list[dict[str, Any]]:
        """What is open; the first tab may come a moment after the browser itself."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            targets = self.send("Target.getTargets")["targetInfos"]
            if any(one["type"] == "page" for one in targets):
                return targets
            time.sleep(0.05)
        raise BrowserError("The browser opened no tab.")

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()  # a browser whose pipe ends closes itself
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give a command and wait for its answer; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                break
            self.events.append(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        """The next message, which ends with a zero byte."""
        assert self._process.stdout is not None
        while b"\0" not in self._unread:
            if not select.select([self._process.stdout], [], [], _PATIENCE)[0]:
                raise BrowserError(f"The browser said nothing for {_PATIENCE:.0f} seconds.")
            chunk = self._process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            if not chunk:
                raise BrowserError(f"The browser ended with status {self._process.wait(_PATIENCE)}.")
            self._unread += chunk
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def open(self, file: Path) -> None:
        """Open a local file and wait until it and its images are there."""
        self.visit(file.as_uri())

    def visit(self, address: str) -> None:
        """Open an address and wait likewise."""
        self.send("Page.navigate", url=address)
        end = time.monotonic() + _PATIENCE
        while self.evaluate("location.href !== 'about:blank' && document.readyState") != "complete":
            if time.monotonic() > end:
                raise BrowserError(f"'{address}' did not finish loading.")
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited where it is a promise."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def resize(self, width: int, height: int = 800) -> None:
        """Give the page a window of that many pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, colour_scheme: str) -> None:
        """Tell the page that its reader likes it `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": colour_scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse."""
        quoted = json.dumps(selector)
        self.evaluate(f"document.querySelector({quoted}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.evaluate(f"document.querySelector({quoted}).getBoundingClientRect().toJSON()")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def press(self, key: str) -> None:
        """Press and release a key: `Tab`, `Enter` or a space."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " ")}[key]
        common = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, whole: bool = False) -> bytes:
        """What the window shows, or the whole page, as a PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def complaints(self) -> list[str]:
        """Console messages, exceptions and warnings that the page gave rise to."""
        self.evaluate("0")  # an answer comes after all events before it
        watched = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event) for event in self.events if event["method"] in watched]

    def requests(self) -> list[str]:
        """The addresses that the page asked for; those of embedded data are no requests."""
        self.evaluate("0")
        asked = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        addresses = [event["params"]["request"]["url"] for event in asked]
        return [address for address in addresses if not address.startswith("data:")]
