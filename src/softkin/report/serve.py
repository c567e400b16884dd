"""Serve the pages of a folder to a browser on this machine, and reload them when they change.

Each page is shown in a sandboxed frame of its own origin, so a file in the folder that is not a report of ours cannot
read the other pages. The outer page polls whether the file has changed.
"""

import base64
import hashlib
import html
import json
import re
import threading
import urllib.parse
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path

from softkin import SoftkinError
from softkin.lab.study.records import RECORD, STUDY
from softkin.lab.study.writing import PAGE
from softkin.report.studies import write_comparison

ADDRESS = "127.0.0.1"  # loopback only; there is no option for another address
DEEP = 3  # levels of subfolders that are served
SECONDS = 30.0  # minimum between two updates of a running study's page

VIEW = '<meta name="viewport" content="width=device-width, initial-scale=1">'
FRAME = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>{view}
<style>{style}</style></head>
<body class="framed"><nav><a href="/">All pages</a></nav>
<iframe title="{title}" data-page="{source}" sandbox="{sandbox}"></iframe><p role="status" id="said"></p>
<script>{script}</script></body></html>"""
STYLE = resources.files(__package__).joinpath("serve.css").read_text(encoding="utf-8")
SCRIPT = resources.files(__package__).joinpath("serve_frame.js").read_text(encoding="utf-8")
SANDBOX = "allow-scripts allow-downloads allow-modals"


def pages(folder: Path) -> list[str]:
    """The HTML files in a folder and its subfolders, as relative paths."""
    inside = [path for depth in range(DEEP + 1) for path in folder.glob("/".join(["*"] * depth + ["*.html"]))]
    return sorted(str(path.relative_to(folder).as_posix()) for path in inside if _allowed(folder, path))


def _allowed(folder: Path, path: Path) -> bool:
    """Whether a path is a page of the folder: not hidden, and not reached through a link out of the folder."""
    inside = path.resolve()
    below = folder.resolve()
    return (
        path.suffix == ".html"
        and inside.is_file()
        and inside.is_relative_to(below)
        and not any(part.startswith(".") for part in inside.relative_to(below).parts)
    )


class PageServer(ThreadingHTTPServer):
    """Server for the pages of a folder; ``serve_forever`` runs it."""

    daemon_threads = True

    def __init__(self, folder: str | Path, *, port: int = 0) -> None:
        """Bind to ``port`` of the loopback address; 0 picks a free port."""
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise SoftkinError(f"{folder} must be a folder of pages, and it is not.")
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise SoftkinError(f"port {port} of {ADDRESS} cannot be used: {error.strerror}.") from error

    @property
    def url(self) -> str:
        """The address of the list of pages."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "softkin"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the list, a frame, a page, or a page's stamp."""
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            return self._send(
                403, "text/plain", b"This address is not served."
            )  # DNS rebinding: another site's name that points here
        parts = urllib.parse.urlsplit(self.path).path.lstrip("/")
        kind, _, quoted = parts.partition("/")
        if not parts:
            return self._html(_list(self.server.folder))
        name = urllib.parse.unquote(quoted)
        if kind not in ("view", "page", "stamp") or name not in pages(self.server.folder):
            return self._send(404, "text/plain", b"There is no such page.")
        path = self.server.folder / name
        try:
            if kind == "stamp":
                about = path.stat()
                return self._send(200, "application/json", json.dumps([about.st_mtime_ns, about.st_size]).encode())
            if kind == "page":
                return self._send(200, "text/html; charset=utf-8", path.read_bytes(), policy=f"sandbox {SANDBOX}")
        except OSError:
            return self._send(404, "text/plain", b"The page was just removed.")
        source = html.escape(f"/page/{urllib.parse.quote(name)}")
        return self._html(
            FRAME.format(view=VIEW, title=html.escape(name), source=source, style=STYLE, script=SCRIPT, sandbox=SANDBOX)
        )

    def _html(self, text: str) -> None:
        policy = (
            "default-src 'none'; frame-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            f"frame-ancestors 'none'; style-src 'sha256-{_digest(STYLE)}'; script-src 'sha256-{_digest(SCRIPT)}'"
        )
        self._send(200, "text/html; charset=utf-8", text.encode("utf-8", errors="replace"), policy=policy)

    def _send(self, status: int, kind: str, content: bytes, *, policy: str = "default-src 'none'") -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: the frames poll once a second."""


def _list(folder: Path) -> str:
    """The pages, the newest first: what each says, its name, and when it was written."""
    names = pages(folder)
    items = "".join(_item(folder, name) for name in sorted(names, key=lambda name: -_written(folder / name)))
    body = f"<ul>{items}</ul>" if names else "<p>There is no page yet. Reload to look again.</p>"
    count = f"{len(names)} page{'' if len(names) == 1 else 's'} of {html.escape(folder.resolve().name)}"
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>softkin: {count}</title>{VIEW}'
        f"<style>{STYLE}</style></head><body><main><h1>{count}</h1>{body}</main></body></html>"
    )


def _item(folder: Path, name: str) -> str:
    when = datetime.fromtimestamp(_written(folder / name), tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    said = _headline(folder / name)
    link = f'<a href="/view/{html.escape(urllib.parse.quote(name))}">{html.escape(said or name)}</a>'
    return f"<li>{link}<small>{html.escape(name)} · {when}</small></li>"


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it was just removed
        return 0.0


HEAD = 400_000  # bytes in which a page has its headline: the style sheet and the first screen


def _headline(path: Path) -> str:
    """The headline of a page of ours; empty for any other file."""
    try:
        with path.open("rb") as stream:
            start = stream.read(HEAD).decode("utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r'<h1 id="headline"[^>]*>(.{1,600}?)</h1>', start, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", found[1])) if found else ""


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def refresh_studies(folder: Path, done: dict[Path, int], say: Callable[[str], None]) -> None:
    """Write the page of each study in a folder that has more results than at the last call.

    A study that is reached by a link out of the folder is left alone.

    Args:
        folder: A study's folder, or a folder of studies.
        done: The number of runs that each study had finished at the last call; updated in place.
        say: Called with a sentence for each page that was written.
    """
    for study in (path.parent for pattern in (STUDY, f"*/{STUDY}") for path in sorted(folder.glob(pattern))):
        if not study.resolve().is_relative_to(folder.resolve()):
            continue
        records = sum(1 for _ in study.glob(f"runs/*/{RECORD}"))
        page = study / PAGE
        if records == done.get(study, records if page.exists() else 0):
            done[study] = records
            continue
        done[study] = records
        try:
            write_comparison(page, study)
        except (SoftkinError, ValueError, KeyError, OSError):
            continue  # no method is done yet, or a record is being written; try again at the next call
        say(f"Wrote {page}, {records} runs done")


def watch_studies(folder: Path, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Call ``refresh_studies`` every half minute until ``stop`` is set."""
    done: dict[Path, int] = {}
    while not stop.is_set():
        refresh_studies(folder, done, say)
        stop.wait(SECONDS)
