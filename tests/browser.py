"""A real browser for tests: load a page, run a script in it, and hear what it said and asked for."""

import json
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from threefold.explore.server import Site, address, serve

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


PROBE = """
window.addEventListener("load", () => setTimeout(async () => {
  let found;
  try { found = await (async () => { SCRIPT })(); } catch (error) { found = { error: String(error) }; }
  const asked = performance.getEntriesByType("resource").map((entry) => entry.name);
  parent.postMessage(JSON.stringify({ found, asked }), "*");
}, 50));
"""
# A frame is as narrow as it is told to be; a window is not.
FRAME = """<!doctype html><meta charset="utf-8"><pre id="found"></pre>
<script>addEventListener("message", (event) => { document.getElementById("found").textContent = event.data; });</script>
<iframe src="probed.html" style="border: 0; width: WIDTHpx; height: 1400px"></iframe>
"""


# A page that is served tells its server, so that nobody has to guess how long a real exchange takes.
SERVED = """
window.addEventListener("load", async () => {
  let found;
  try { found = await (async () => { SCRIPT })(); } catch (error) { found = { error: String(error) }; }
  const asked = performance.getEntriesByType("resource").map((entry) => entry.name);
  fetch("/api/found?" + new URLSearchParams({ told: JSON.stringify({ found, asked }) }));
});
"""


@dataclass(frozen=True)
class Visit:
    """What a script in the page found, what the page said on its console, and which addresses it asked for."""

    found: Any
    console: list[str]
    asked: list[str]


def probed(html: str, script: str, frame: str) -> str:
    """The page with `script` run in it once it is loaded, under the page's own rules for scripts."""
    nonce = re.search(r'nonce="([^"]+)"', html)
    probe = f'<script nonce="{nonce.group(1) if nonce else ""}">{frame.replace("SCRIPT", script)}</script>'
    return html.replace("</body>", probe + "</body>")


def visit(page: Path, script: str, folder: Path, *, width: int = 1000, dark: bool = False) -> Visit:
    """Load a page that we made at a width, run `script` in it (its `return` is what was found), and listen."""
    html = page.read_text(encoding="utf-8")
    (folder / "probed.html").write_text(probed(html, script, PROBE), encoding="utf-8")
    frame = folder / "frame.html"
    frame.write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    command = [
        CHROMIUM or "",
        *QUIET,
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={max(width, 600) + 40},1500",
        "--enable-logging=stderr",
        "--virtual-time-budget=6000",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        "--dump-dom",
        frame.as_uri(),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="found">(.*?)</pre>', result.stdout, re.DOTALL)
    assert match, result.stdout[-2000:] + result.stderr[-2000:]
    text = match.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    answer = json.loads(text)
    return Visit(answer["found"], _console(result.stderr), answer["asked"])


def visit_served(site: Site, script: str, folder: Path, *flags: str) -> tuple[Visit, str]:
    """Serve a site, run `script` in its page, and hear what the page told its own server; also its address."""
    told: Queue[str] = Queue()
    answers = {**site.answers, "found": lambda given: told.put(given["told"])}
    server = serve(replace(site, page=probed(site.page, script, SERVED), answers=answers))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    own = address(server)
    command = [CHROMIUM or "", *QUIET, *flags, f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", own]
    with (folder / "said").open("w") as said:
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        try:
            answer = json.loads(told.get(timeout=120))
        finally:
            browser.terminate()
            browser.wait(30)
            server.shutdown()
            server.server_close()
            thread.join()
    return Visit(answer["found"], _console((folder / "said").read_text()), answer["asked"]), own


def _console(said: str) -> list[str]:
    return [line for line in said.splitlines() if "CONSOLE" in line]
