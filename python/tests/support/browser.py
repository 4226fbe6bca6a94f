# SPDX-License-Identifier: MIT
"""Headless Chromium, spoken to by the DevTools protocol over two pipes: opens a page, evaluates in
it, listens for errors and requests, takes pictures.

python python/tests/support/browser.py report.html 1280 picture.png      takes a picture of a page"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")


class Browser:
    """One page at a time. `complaints` has what its console and its exceptions said, `requests`
    every address it asked for."""

    def __init__(self, deadline: float = 120.0) -> None:
        self.deadline = time.monotonic() + deadline
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def __enter__(self) -> Browser:
        assert CHROMIUM, "chromium is not here"
        self._profile = tempfile.TemporaryDirectory(
            prefix="pliant-browser-", ignore_cleanup_errors=True
        )
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        # The protocol's pipes are descriptors 3 and 4, so they are moved there by the shell that
        # becomes the browser.
        flags = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --disable-background-networking --disable-component-update --remote-debugging-pipe"
        script = (
            f'exec 3<&{their_in} 4>&{their_out}; exec "$0" {flags} --user-data-dir="$1" about:blank'
        )
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, str(CHROMIUM), self._profile.name],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self._buffer, self._number, self._session = b"", 0, None
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self._call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(30)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def open(self, page: Path, width: int = 1280, height: int = 900) -> None:
        """Returns when the page has drawn its charts."""
        self.complaints.clear()
        self.requests.clear()
        self.resize(width, height)
        self._call("Page.navigate", url=page.resolve().as_uri())
        while not self.evaluate(
            "document.readyState == 'complete' && document.documentElement.dataset.drawn !== "
            "undefined"
        ):
            assert time.monotonic() < self.deadline, (
                f"{page} was not drawn in time; it said {self.complaints}"
            )
            time.sleep(0.05)

    def resize(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def evaluate(self, expression: str) -> Any:
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def picture(self, path: Path) -> Path:
        """Of the whole page, not only of what fits the window."""
        path.write_bytes(
            base64.b64decode(
                self._call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
            )
        )
        return path

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | (
            {"sessionId": self._session} if self._session else {}
        )
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._hear(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select(
                [self._in], [], [], max(0.0, self.deadline - time.monotonic())
            )
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        out: dict[str, Any] = json.loads(message)
        return out

    def _hear(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.complaints.append(
                    str([each.get("value", each.get("description")) for each in parameters["args"]])
                )
            case "Runtime.exceptionThrown":
                self.complaints.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.complaints.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"][:200])
            case "Page.javascriptDialogOpening":
                self.complaints.append(f"a dialog: {parameters['message']}")


if __name__ == "__main__":
    _, page_name, width_text, picture_name = sys.argv
    with Browser() as shown:
        shown.open(Path(page_name), int(width_text))
        time.sleep(0.6)  # what fades in or out has done so
        shown.picture(Path(picture_name))
        print("\n".join(shown.complaints), file=sys.stderr)
