"""`hindsight watch`: the live page, for this machine only."""

import contextlib
import socket
import webbrowser

from hindsight_rl.analysis.inventory import find
from hindsight_rl.analysis.live.views import Watcher
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.looking_commands import Watch
from hindsight_rl.cli.watch_films import FilmMaker
from hindsight_rl.cli.watch_server import ADDRESS, make_server
from hindsight_rl.core.errors import HindsightError


def run_watch(command: Watch) -> None:
    """Serve until Ctrl-C, which ends the page and nothing else."""
    if not 0 <= command.port < 65536:
        raise HindsightError(f"port must lie between 0 and 65535, not {command.port}.")
    found = find(command.folder)  # refuses a folder that is not there
    with contextlib.closing(FilmMaker()) as films:
        try:
            server, address = make_server(Watcher(command.folder, films.film_of), command.port)
        except (OSError, socket.gaierror) as error:
            raise HindsightError(f"Cannot listen on {ADDRESS}, port {command.port}: {error.strerror}.") from None
        with server:
            _tell(command, address, len(found))
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                raise KeyboardInterrupt("The page is closed; runs go on as they were.") from None


def _tell(command: Watch, address: str, found: int) -> None:
    console = PlainConsole()
    what = "1 run or study" if found == 1 else f"{found:,} runs and studies"
    console.print(f"Watching {what} below {command.folder}; Ctrl-C ends this.", soft_wrap=True)
    console.print(address, soft_wrap=True)
    console.file.flush()
    if command.open:
        webbrowser.open(address)
