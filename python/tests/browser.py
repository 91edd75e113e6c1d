"""A headless Chromium for tests of pages, spoken to through its pipe of DevTools messages."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str | None:
    """Return the path of a Chromium, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, program: str, profile: Path, width: int = 1280, height: int = 800) -> None:
        """Start the browser with a profile in a folder of its own."""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser's ends of the pipes are its descriptors 3 and 4.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out)]
        self._process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
            + [
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=lambda: [os.dup2(fd, 3 + i) for i, fd in enumerate(high)] and None,
        )
        for fd in (*high, theirs_in, theirs_out):
            os.close(fd)
        self._buffer = b""
        self._last = 0
        self._session: str | None = None
        #: What scripts threw, and messages of level error in the console.
        self.errors: list[str] = []
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._in, 1 << 16)
            if not piece:
                raise RuntimeError("the browser has ended")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(message["params"]["entry"]["text"])
        return message

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._last:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path, patience: float = 60) -> None:
        """Open a file and wait until its scripts have ended."""
        self.call("Page.navigate", url=path.as_uri())
        end = time.monotonic() + patience
        while self.value("location.href.split('#')[0] + document.readyState") != path.as_uri() + "complete":
            if time.monotonic() > end:
                raise RuntimeError(f"{path} does not load: {self.errors}")
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, or what its promise gives."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element that a CSS selector finds."""
        found: list[str] = self.value(f"[...document.querySelectorAll({selector!r})].map((e) => e.textContent)")
        return found

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind: str, selector: str, **params: Any) -> None:
        """Send a mouse event to the middle of an element."""
        box = f"document.querySelector({selector!r}).getBoundingClientRect()"
        x, y = self.value(f"(() => {{ const b = {box}; return [b.x + b.width / 2, b.y + b.height / 2]; }})()")
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **params)

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, selector, button="left", clickCount=1)
