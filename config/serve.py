"""
Run one of our ASGI applications with uvicorn: ``python -m config.serve web --port 8000``.

The supervisor passes a listening socket (``--fd``) that it keeps itself: while a killed web or
gateway starts again, callers wait in the socket's queue instead of being refused. uvicorn's own
``--fd`` takes every socket for a unix one, which leaves Nagle's algorithm on (40 ms an answer).
"""

import argparse
import gc
import os
import socket
from pathlib import Path

import uvicorn

LONGEST_FRAME = 4 * 2**20  # bytes; rental.gateway refuses a frame before it comes near this
APPLICATIONS = {"web": "config.asgi:application", "gateway": "config.asgi:gateway"}


TOUCH_EVERY = 5  # s
COLLECT_AFTER = 20_000, 20, 20  # new objects; young collections; middle ones


class Server(uvicorn.Server):
    """
    uvicorn that touches ALIVE_FILE once it serves, and from then on while its event loop turns: a
    probe of the port would wait at first, and be answered by any of several processes later.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            collect_garbage_seldom()
            await touch()


def collect_garbage_seldom() -> None:
    """
    Pages are made of very many objects that die young by their count of references. Looking for
    cycles among them, and among all the modules that stay, cost a quarter of a page (measured).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def touch() -> None:
    if path := os.environ.get("ALIVE_FILE"):
        Path(path).touch()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m config.serve", description=__doc__)
    parser.add_argument("application", choices=sorted(APPLICATIONS))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--fd", type=int, help="a listening socket that was passed down")
    chosen = parser.parse_args()

    is_gateway = chosen.application == "gateway"
    config = uvicorn.Config(
        APPLICATIONS[chosen.application],
        host=chosen.host,
        port=chosen.port,
        lifespan="on" if is_gateway else "off",  # Django knows no lifespan
        # Frames are small and many: compression would keep its buffers for each link for nothing.
        ws_per_message_deflate=False,
        ws_max_size=LONGEST_FRAME,
        log_config=None,  # config.logs has set logging up
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        callback_notify=touch,
        timeout_notify=TOUCH_EVERY,
    )
    sockets = [socket.socket(fileno=chosen.fd)] if chosen.fd is not None else None
    Server(config).run(sockets=sockets)


if __name__ == "__main__":
    main()
