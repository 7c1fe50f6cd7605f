"""Whom the live page answers, and what it hands out."""

import http.client
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import pytest
from reference.run_folders import made_up_evaluations, made_up_run

from hindsight_rl.analysis.live.views import Watcher
from hindsight_rl.cli import main
from hindsight_rl.cli.watch_server import WatchServer, make_server

FILM = bytes(range(256)) * 8


class Served(NamedTuple):
    server: WatchServer
    host: str
    token: str
    folder: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.gif").write_bytes(b"secret")
    made_up_run(outside / "other", made_up_evaluations())
    folder = tmp_path_factory.mktemp("watched")
    run = made_up_run(folder / "run", made_up_evaluations())
    (run / "policy.mp4").write_bytes(FILM)
    (run / "linked.gif").symlink_to(outside / "secret.gif")
    (folder / "linked").symlink_to(outside / "other")
    server, address = make_server(Watcher(folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    parts = urlsplit(address)
    yield Served(server, parts.netloc, parts.path.strip("/"), folder)
    server.shutdown()
    thread.join()
    server.server_close()


def ask(served: Served, path: str, method: str = "GET", **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.server.server_address[1], timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


def test_listens_on_loopback_only_with_a_new_token_each_time(served: Served) -> None:
    assert served.server.server_address[0] == "127.0.0.1"
    other, _ = make_server(Watcher(served.folder))
    other.server_close()
    assert other.token != served.token
    assert len(served.token) >= 32


@pytest.mark.parametrize(
    "path", ["/", "/overview.json", "/wrong/overview.json", "//overview.json", "/{token}x/", "/{token}"]
)
def test_without_its_token_nothing_is_told(served: Served, path: str) -> None:
    status, _, content = ask(served, path.format(token=served.token))
    assert status == 403
    assert b"run" not in content.replace(b"hindsight watch printed", b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_other_hosts_and_pages_are_refused(served: Served, headers: dict[str, str]) -> None:
    assert ask(served, f"/{served.token}/overview.json", **headers)[0] == 403
    assert ask(served, f"/{served.token}/overview.json", Host=served.host, Origin=f"http://{served.host}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_is_understood(served: Served, method: str) -> None:
    status, headers, content = ask(served, f"/{served.token}/overview.json", method)
    assert (status, content) == (501, b"This request is not understood.\n")
    assert headers["Content-Type"].startswith("text/plain")


def test_only_what_was_found_is_handed_out(served: Served) -> None:
    _, headers, content = ask(served, f"/{served.token}/overview.json")
    assert [item["name"] for item in json.loads(content)["items"]] == ["run"]  # no link is followed
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff"
    wrong = ["../outside0/other", "linked", "run/../../outside0/other", str(served.folder / "run"), "", "."]
    paths = [f"detail.json?name={quote(name)}" for name in wrong]
    paths += [f"film?name={quote(name)}&file=secret.gif" for name in wrong]
    files = ["linked.gif", "../linked.gif", "settings.json", "../../outside0/secret.gif", "/etc/passwd"]
    paths += [f"film?name=run&file={quote(file, safe='')}" for file in files]
    paths += ["../watch.js", "%2e%2e/watch.js", "watch.py", "run/settings.json"]
    for path in paths:
        assert ask(served, f"/{served.token}/{path}")[0] == 404, path


def test_what_cannot_be_shown_is_said_on_the_page_and_once_in_the_terminal(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("odd\x1b[31m")

    monkeypatch.setattr(served.server.watcher, "overview", fail)
    for _ in range(2):
        status, headers, content = ask(served, f"/{served.token}/overview.json")
        assert (status, headers["Content-Type"]) == (500, "text/plain; charset=utf-8")
        assert content.startswith(b"This cannot be shown (RuntimeError: odd")
    assert capsys.readouterr().err == "hindsight: This cannot be shown (RuntimeError: odd\\x1b[31m).\n"


def test_films_come_whole_and_in_parts(served: Served) -> None:
    path = f"/{served.token}/film?name=run&file=policy.mp4"
    status, headers, content = ask(served, path)
    assert (status, content, headers["Content-Type"]) == (200, FILM, "video/mp4")
    # Whatever a file holds: it is a film, or nothing.
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    status, headers, content = ask(served, path, Range="bytes=100-199")
    assert (status, content, headers["Content-Range"]) == (206, FILM[100:200], f"bytes 100-199/{len(FILM)}")
    assert ask(served, path, Range="bytes=2000-")[2] == FILM[2000:]
    assert ask(served, path, "HEAD")[2] == b""


def test_wrong_arguments_end_in_a_sentence(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    taken = str(served.server.server_address[1])
    wrong = [
        (["nowhere"], "There is no folder 'nowhere'."),
        ([str(served.folder), "--port", "70000"], "port must lie between 0 and 65535, not 70000."),
        ([str(served.folder), "--port", taken], f"Cannot listen on 127.0.0.1, port {taken}: {os.strerror(98)}."),
    ]
    for arguments, said in wrong:
        with pytest.raises(SystemExit) as stop:
            main(["watch", *arguments])
        assert stop.value.code == 2
        assert capsys.readouterr().err == f"hindsight: {said}\n"
