"""Headless Chromium over the pipe of its developer tools: enough to open a page, look at it, and click."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One tab. ``errors`` has everything that the page wrote to the console as an error, or threw."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        from_us, self._out = os.pipe()
        self._in, to_us = os.pipe()
        self.errors: list[str] = []
        self._number = 0
        self._rest = b""

        def wire() -> None:
            # Chromium reads commands from descriptor 3 and answers on 4.
            os.dup2(os.dup(from_us), 3)
            os.dup2(os.dup(to_us), 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        self._process = subprocess.Popen(
            [CHROMIUM, *flags, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=wire,
        )
        os.close(from_us)
        os.close(to_us)
        page = next(t for t in self._send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        session = self._send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session: str | None = session["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._send(f"{domain}.enable")

    _session: str | None = None

    def open(self, file: Path, width: int, height: int = 900) -> None:
        """Load a file in a window of this size, and wait until it is there."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._send("Emulation.setDeviceMetricsOverride", **size)
        self._send("Page.navigate", url=file.as_uri())
        self._wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self._send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key such as ``Enter``, where the focus is."""
        text = {"Enter": "\r"}.get(key, "")
        code = {"Enter": 13, "Tab": 9}[key]
        for kind in ("keyDown", "keyUp"):
            self._send("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text, windowsVirtualKeyCode=code)

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        data = self._send("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def print(self) -> bytes:
        """The page as it is printed, as PDF."""
        return base64.b64decode(self._send("Page.printToPDF", preferCSSPageSize=True)["data"])

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while (message := self._read()).get("id") != self._number:
            pass
        assert "error" not in message, (method, message["error"])
        answer: dict[str, Any] = message["result"]
        return answer

    def _wait_for(self, event: str) -> None:
        while self._read().get("method") != event:
            pass

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 20)
            if not part:
                raise EOFError("Chromium has ended.")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, said: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.errors.append(str(said["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.errors.append(str(said["args"]))
        elif event == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.errors.append(str(said["entry"]))

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
