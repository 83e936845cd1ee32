"""kopf in its own thread with its own loop, so that ending it is quick and ours goes on."""

import asyncio
import logging
import threading

import kopf

from sharemesh_operator.handlers import Handlers

STOP_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class KopfThread:
    """Runs kopf's operator from ``start`` to ``stop``."""

    def __init__(self, handlers: Handlers, namespace: str, identity: str) -> None:
        self._handlers = handlers
        self._namespace = namespace
        self._identity = identity
        self._flag = threading.Event()
        self._ready = threading.Event()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        """Why kopf ended; done only when it has."""
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether kopf has begun to watch."""
        return self._ready.is_set()

    async def stop(self) -> None:
        """End it; after ``STOP_TIMEOUT_S`` it is left behind, and does nothing more of ours."""
        self._flag.set()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await asyncio.shield(self.ended)
        except TimeoutError:
            _log.warning("kopf did not end in %s s", STOP_TIMEOUT_S)

    def _run(self) -> None:
        why = "it ended by itself"
        try:
            asyncio.run(
                kopf.operator(
                    registry=self._handlers.registry,
                    settings=self._handlers.settings,
                    namespaces=[self._namespace],
                    standalone=True,
                    identity=kopf.Identity(self._identity) if hasattr(kopf, "Identity") else None,
                    stop_flag=self._flag,
                    ready_flag=self._ready,
                )
            )
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"
            _log.exception("kopf ended")
        self._tell(why)

    def _tell(self, why: str) -> None:
        def done() -> None:
            if not self.ended.done():
                self.ended.set_result(why)

        try:
            self._loop.call_soon_threadsafe(done)
        except RuntimeError:
            return  # our loop is gone already: nobody waits
