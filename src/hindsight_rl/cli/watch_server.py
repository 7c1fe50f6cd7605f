"""The server of the live page: loopback only, a secret in its address, and nothing but what was found is handed out."""

import hmac
import json
import re
import secrets
import shutil
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hindsight_rl.analysis.live.views import Watcher
from hindsight_rl.core.errors import HindsightError, gist, one_sentence

ADDRESS = "127.0.0.1"
FILES = {
    "": ("watch.html", "text/html"),
    "watch.css": ("watch.css", "text/css"),
    "watch.js": ("watch.js", "text/javascript"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
FILMS = {".gif": "image/gif", ".mp4": "video/mp4"}
HEADERS = {
    # Whatever a name or a message holds: no script but ours, no other place to send anything to.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class WatchServer(ThreadingHTTPServer):
    """Knows its secret, and whom it answers."""

    daemon_threads = True

    def __init__(self, watcher: Watcher, port: int):
        super().__init__((ADDRESS, port), WatchHandler)
        self.watcher = watcher
        self.token = secrets.token_urlsafe(24)
        self.said: set[str] = set()
        # A page of a stranger can have its own name lead to 127.0.0.1, but not send another name than its own.
        self.hosts = {f"{name}:{self.server_address[1]}" for name in (ADDRESS, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes a connection is no event; anything else is said, once."""
        if not isinstance(error := sys.exception(), OSError | None):
            self.say(error)

    def say(self, error: BaseException) -> str:
        """Why something could not be shown, in a sentence that also stands where the program was started."""
        sentence = f"This cannot be shown ({gist(error)})."
        if sentence not in self.said:
            self.said.add(sentence)
            print(f"hindsight: {one_sentence(sentence)}", file=sys.stderr)
        return sentence


class WatchHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: WatchServer
    server_version, sys_version = "hindsight", ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Hand out the page, its data, or a film."""
        self._respond()

    def do_HEAD(self) -> None:
        """The same without content."""
        self._respond()

    def _respond(self) -> None:
        parts = urlsplit(self.path)
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in self.server.hosts or self.headers.get_all("Host", [])[1:]:
            self._refuse(HTTPStatus.FORBIDDEN, "This page answers only under its own address.")
        elif origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            self._refuse(HTTPStatus.FORBIDDEN, "This page answers no other page.")
        elif (rest := self._behind_token(parts.path)) is None:
            self._refuse(HTTPStatus.FORBIDDEN, "The address lacks its token: copy all of what hindsight watch printed.")
        else:
            self._route(rest, {name: values[-1] for name, values in parse_qs(parts.query).items()})

    def _behind_token(self, path: str) -> str | None:
        """The path behind the token; None without a token, or with a wrong one."""
        _, token, *rest = path.split("/", 2) if path.startswith("/") else ("", "")
        right = hmac.compare_digest(token.encode(errors="replace"), self.server.token.encode())
        return rest[0] if right and rest else None

    def _route(self, path: str, query: dict[str, str]) -> None:
        watcher = self.server.watcher
        try:
            if path in FILES:
                name, kind = FILES[path]
                content = files("hindsight_rl.analysis.live").joinpath("page", name).read_bytes()
                self._answer(HTTPStatus.OK, f"{kind}; charset=utf-8", content)
            elif path == "overview.json":
                self._json(watcher.overview())
            elif path == "detail.json" and (detail := watcher.detail(query.get("name", ""))) is not None:
                self._json(detail)
            elif path == "film" and (film := watcher.film(query.get("name", ""), query.get("file", ""))) is not None:
                self._film(film)
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "There is nothing of that name.")
        except (HindsightError, FileNotFoundError) as error:  # gone or damaged since it was found
            self._refuse(HTTPStatus.NOT_FOUND, str(error))
        except OSError:
            raise
        except Exception as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, self.server.say(error))

    def _json(self, content: Any) -> None:
        self._answer(HTTPStatus.OK, "application/json", json.dumps(content, allow_nan=False).encode())

    def _film(self, path: Path) -> None:
        """A film, or the part of it that a player asks for."""
        size = path.stat().st_size
        first, last, status = 0, size - 1, HTTPStatus.OK
        asked = re.fullmatch(r"bytes=(\d{1,18})-(\d{0,18})", self.headers.get("Range", ""))
        if asked and int(asked[1]) < size:
            first, last = int(asked[1]), min(int(asked[2] or last), last)
            status = HTTPStatus.PARTIAL_CONTENT
        self._begin(status, FILMS[path.suffix.lower()], max(0, last - first + 1))
        self.send_header("Accept-Ranges", "bytes")
        if status is HTTPStatus.PARTIAL_CONTENT:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        if self.command == "HEAD":
            return
        with path.open("rb") as file:
            file.seek(first)
            left = last - first + 1
            if left == size:
                shutil.copyfileobj(file, self.wfile)
            else:
                self.wfile.write(file.read(left))

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self.close_connection = True
        self._answer(status, "text/plain; charset=utf-8", f"{sentence}\n".encode())

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self._begin(status, kind, len(content))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str, length: int) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(length)}.items():
            self.send_header(name, value)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses, such as other methods, in plain text as well."""
        self._refuse(HTTPStatus(code), "This request is not understood.")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests hold the token, and nobody reads them."""


def make_server(watcher: Watcher, port: int = 0) -> tuple[WatchServer, str]:
    """A server that listens, and the address of its page."""
    server = WatchServer(watcher, port)
    return server, f"http://{ADDRESS}:{server.server_address[1]}/{server.token}/"
