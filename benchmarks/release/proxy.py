"""A network as far away as one likes: a TCP proxy on loopback that delays what goes through it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchmarks.object_stores import free_port

_CHUNK = 1 << 18
_IN_FLIGHT = 64  # chunks, so that a wait does not lower the throughput


@contextmanager
def far_away(port: int, seconds: float) -> Iterator[int]:
    """A port that leads to `port`, with a round trip of so many seconds; opening a connection costs one as well."""
    listening = free_port()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    served = asyncio.start_server(lambda *ends: _serve(*ends, port, seconds), "127.0.0.1", listening, backlog=1024)
    asyncio.run_coroutine_threadsafe(served, loop).result()
    try:
        yield listening
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, seconds: float) -> None:
    """One connection, both ways."""
    await asyncio.sleep(seconds)
    with suppress(OSError):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_carry(reader, far_writer, seconds / 2), _carry(far_reader, writer, seconds / 2))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """One way: what is read now is written `seconds` later, while more is read."""
    loop = asyncio.get_running_loop()
    travelling: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_IN_FLIGHT)

    async def arrive() -> None:
        while True:
            due, chunk = await travelling.get()
            await asyncio.sleep(due - loop.time())
            if not chunk:
                return
            writer.write(chunk)
            await writer.drain()

    arriving = asyncio.create_task(arrive())
    try:
        while True:
            chunk = await reader.read(_CHUNK)
            await travelling.put((loop.time() + seconds, chunk))
            if not chunk:
                return await arriving
    except OSError:
        arriving.cancel()
    finally:
        writer.close()
