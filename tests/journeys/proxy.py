"""A TCP relay that can be cut like a network: bytes wait while it is cut, nothing is closed."""

import asyncio
import contextlib
import threading


class Relay:
    """
    Relay 127.0.0.1:<port> to 127.0.0.1:<target>. ``cut`` holds back all bytes, both ways, and
    lets new connections wait; ``heal`` lets them flow again, as a repaired cable does.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._down = asyncio.Event()
        self._up = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the relay did not start")

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._up.clear)
        self._loop.call_soon_threadsafe(self._down.clear)

    def cut_upward(self) -> None:
        """Only what the agent says is held back; orders still reach it."""
        self._loop.call_soon_threadsafe(self._up.clear)

    def heal(self) -> None:
        self._loop.call_soon_threadsafe(self._up.set)
        self._loop.call_soon_threadsafe(self._down.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._up.set()
        self._down.set()
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._up.wait()
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self._pump(reader, up_writer, self._up), self._pump(up_reader, writer, self._down)
        )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while chunk := await reader.read(65536):
                await gate.wait()
                writer.write(chunk)
                await writer.drain()
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()
