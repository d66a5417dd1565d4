"""A stand-in for the Hugging Face Hub on loopback: repositories in memory, by the requests that its client makes."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

REPOSITORIES: dict[str, dict[str, bytes]] = {}
PRIVATE: dict[str, bool] = {}


def commit_of(files: dict[str, bytes]) -> str:
    return hashlib.sha1(b"".join(name.encode() + content for name, content in sorted(files.items()))).hexdigest()


class Hub(BaseHTTPRequestHandler):
    """Creates repositories, takes commits of inlined files, and gives files back."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, value: object, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        address = f"http://{self.headers['Host']}"
        if path == "/api/repos/create":
            asked = json.loads(content)
            name = "/".join(part for part in (asked.get("organization"), asked["name"]) if part)
            REPOSITORIES.setdefault(name, {})
            PRIVATE[name] = bool(asked.get("private")) or asked.get("visibility") == "private"
            self.answer({"url": f"{address}/{name}", "name": name})
            return
        if path == "/api/validate-yaml":  # the header of a model card
            self.answer({"errors": [], "warnings": []})
            return
        repository, _, action = path.removeprefix("/api/models/").partition("/preupload/")
        if action:
            files = json.loads(content)["files"]
            plain = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]
            self.answer({"files": plain})
            return
        repository = path.removeprefix("/api/models/").partition("/commit/")[0]
        for line in content.decode().splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                REPOSITORIES[repository][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        commit = commit_of(REPOSITORIES[repository])
        self.answer({"commitUrl": f"{address}/{repository}/commit/{commit}", "commitOid": commit, "success": True})

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path == "/api/whoami-v2":
            self.answer({"name": "somebody", "type": "user"})
        elif path.startswith("/api/models/"):
            repository, _, _ = path.removeprefix("/api/models/").partition("/revision/")
            repository, _, tree = repository.partition("/tree/")
            files = REPOSITORIES.get(repository)
            if files is None:
                self.answer({"error": "Repository not found"}, 404)
            elif tree:
                entries = [{"type": "file", "path": name, "size": len(each), "oid": hashlib.sha1(each).hexdigest()}
                           for name, each in files.items()]  # fmt: skip
                self.answer(entries)
            else:
                siblings = [{"rfilename": name} for name in files]
                self.answer({"id": repository, "sha": commit_of(files), "siblings": siblings, "private": True})
        else:
            self.file(path.lstrip("/"))

    def do_HEAD(self) -> None:
        self.do_GET()

    def file(self, path: str) -> None:
        repository, _, rest = path.partition("/resolve/")
        name = rest.partition("/")[2]
        content = REPOSITORIES.get(repository, {}).get(name)
        if content is None:
            self.answer({"error": "Entry not found"}, 404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", commit_of(REPOSITORIES[repository]))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@contextmanager
def hub_on_loopback():
    """Serve an empty hub, and yield its address."""
    REPOSITORIES.clear()
    PRIVATE.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
