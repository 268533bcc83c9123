"""A stand-in for the Hugging Face hub: the part of its HTTP interface that creates and fills a repository."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

TOKEN = "hf_of_the_tests"
USER = "ada"
BREAK = 0
"""A fault that ends the connection without an answer."""


@dataclass
class Repository:
    """What a repository holds.

    Attributes:
        files: path to content.
        commits: number of them.
    """

    private: bool
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b""})
    commits: int = 0

    @property
    def card(self) -> str:
        return self.files["README.md"].decode()

    @property
    def tags(self) -> list[str]:
        card = self.files.get("README.md", b"").decode()
        return list(yaml.safe_load(card.split("---")[1]).get("tags", [])) if card.startswith("---") else []


@dataclass
class Hub:
    """The state of the stand-in.

    Attributes:
        repositories: name to repository.
        faults: the end of a path to the status that requests to it get.
        requests: method and path of each request, in their order.
    """

    endpoint: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        match [method, *path.strip("/").split("/")]:
            case ["GET", "api", "whoami-v2"]:
                return 200, {"name": USER, "type": "user"}
            case ["POST", "api", "validate-yaml"]:
                return 200, {"errors": [], "warnings": []}
            case ["POST", "api", "repos", "create"]:
                return self._create(json.loads(body))
            case ["GET", "api", "models", user, name, *rest] if rest in ([], ["revision", "main"]):
                return self._info(f"{user}/{name}")
            case ["GET", "api", "models", user, name, "tree", "main"]:
                files = self.repositories[f"{user}/{name}"].files
                listed = [{"type": "file", "path": each, "size": len(files[each]), "oid": "0"} for each in files]
                return 200, listed
            case ["POST", "api", "models", _, _, "preupload", "main"]:
                return 200, {"files": [_mode(each["path"]) for each in json.loads(body)["files"]]}
            case ["POST", _, _, "info", "lfs", "objects", "batch"]:
                return 200, {"transfer": "basic", "objects": list(map(self._place, json.loads(body)["objects"]))}
            case ["PUT", "blobs", oid]:
                self.blobs[oid] = body
                return 200, {}
            case ["POST", "api", "models", user, name, "commit", "main"]:
                return self._commit(f"{user}/{name}", body)
        return 404, {"error": f"no {method} {path}"}

    def _create(self, asked: dict[str, Any]) -> tuple[int, Any]:
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.repositories:
            return 409, {"error": "You already created this model repo", "url": f"{self.endpoint}/{name}"}
        private = asked.get("visibility") == "private" or asked.get("private", False)
        self.repositories[name] = Repository(private)
        return 200, {"url": f"{self.endpoint}/{name}", "name": name}

    def _info(self, name: str) -> tuple[int, Any]:
        if name not in self.repositories:
            return 404, {"error": "Repository not found"}
        found = self.repositories[name]
        siblings = [{"rfilename": each} for each in found.files]
        return 200, {"id": name, "private": found.private, "tags": found.tags, "siblings": siblings, "sha": "0" * 40}

    def _place(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {**asked, "actions": {"upload": {"href": f"{self.endpoint}/blobs/{asked['oid']}"}}}

    def _commit(self, name: str, body: bytes) -> tuple[int, Any]:
        repository = self.repositories[name]
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repository.files[value["path"]] = self.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                del repository.files[value["path"]]
        repository.commits += 1
        return 200, {"success": True, "commitUrl": f"{self.endpoint}/{name}/commit/1", "commitOid": "1" * 40}


def _mode(path: str) -> dict[str, Any]:
    kind = "lfs" if path.endswith(".safetensors") else "regular"
    return {"path": path, "uploadMode": kind, "shouldIgnore": False, "oid": None}


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve an empty hub on this machine until the block ends."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            hub.requests.append(f"{self.command} {path}")
            fault = next((status for end, status in hub.faults.items() if path.endswith(end)), None)
            if fault == BREAK:
                self.connection.close()
                return
            status, content = (fault, {"error": "refused"}) if fault else hub.answer(self.command, path, body)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}" and not path.startswith("/blobs"):
                status, content = 401, {"error": "Invalid username or password."}
            answer = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_HEAD = handle_request  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
