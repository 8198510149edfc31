"""threefold explore"""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from threefold.cli.parse import parse

if TYPE_CHECKING:
    from threefold.explore.server import Site


@dataclass
class Options:
    """Serve the report page to this machine, with live panels.

    Example: threefold explore encdec-12-8

    MODEL is a preset of `threefold plan`, a mixer such as lstm or taylor2, a run folder, or a folder that holds runs; a
    speech run also listens. Without MODEL it is the demonstration, where that was run here.
    """

    model: Annotated[str, tyro.conf.Positional] = ""
    """What to explore. (runs/demo, or softmax)"""
    width: int = 256
    """Width, where the model is a single mixer."""
    port: int = 8765
    """Port on the loopback address; 0 takes a free one."""
    open: bool = False
    """Open a browser."""


def run(argv: list[str]) -> int:
    """Serve until interrupted."""
    options = parse(Options, argv, "explore")
    from threefold.explore.server import address, serve
    from threefold.explore.site import site_of

    site: Site = site_of(options.model, options.width)
    server = serve(site, options.port)
    sys.stdout.write(f"{address(server)}  (Ctrl-C stops it)\n")
    sys.stdout.flush()
    if options.open:
        webbrowser.open(address(server))
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    finally:
        server.server_close()
    return 0
