"""One round of a fetch session: what moved since the last one, at the latest after the wait."""

from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerRefusedError,
    FetchedRecords,
    Isolation,
    WatchAnswer,
)
from sharemesh.testing.memory_brokers.broker import MemoryBroker, Reply
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode
from sharemesh.testing.memory_brokers.broker_requests import (
    Request,
    divergence,
    read_now,
    wait_or_give_up,
)
from sharemesh.testing.memory_brokers.fetch_sessions import (
    FULL_EPOCH,
    NO_SESSION,
    FetchSession,
    SessionAnswer,
    SessionEntry,
    SessionRequest,
)
from sharemesh.testing.memory_brokers.replica import Replica

_EPOCHS = 2**31 - 1


def session_round(request: SessionRequest) -> Request:
    """Answer what is new; a full round answers for every partition, at once."""

    def handle(broker: MemoryBroker, reply: Reply) -> None:
        session = _session(broker, request, reply)
        if session is None:
            return
        session.change(request)
        is_kept = session.session_id != NO_SESSION

        def answer() -> None:
            answers = _news(broker, session, request.max_bytes)
            reply(SessionAnswer(session.session_id, answers))

        if request.session_epoch == FULL_EPOCH and is_kept:
            answer()
            return
        replicas = _to_wait_for(broker, session)
        if replicas is None or request.max_wait_ms <= 0:
            answer()
            return

        def attempt() -> bool:
            if _to_wait_for(broker, session) is None:
                answer()
                return True
            return False

        wait_or_give_up(broker, replicas, attempt, request.max_wait_ms, answer)

    return handle


def end_session(session_id: int) -> Request:
    """Forget a session."""

    def handle(broker: MemoryBroker, reply: Reply) -> None:
        broker.sessions.end(session_id)
        reply(SessionAnswer(NO_SESSION, ()))

    return handle


def _session(broker: MemoryBroker, request: SessionRequest, reply: Reply) -> FetchSession | None:
    if request.session_epoch == FULL_EPOCH:
        broker.sessions.end(request.session_id)
        return broker.sessions.open()
    session = broker.sessions.get(request.session_id)
    error = 0
    if session is None:
        error = BrokerCode.FETCH_SESSION_ID_NOT_FOUND
    elif session.epoch != request.session_epoch:
        error = BrokerCode.INVALID_FETCH_SESSION_EPOCH
    if error or session is None:
        reply(SessionAnswer(NO_SESSION, (), int(error)))
        return None
    session.epoch = session.epoch % _EPOCHS + 1
    return session


def _to_wait_for(broker: MemoryBroker, session: FetchSession) -> list[Replica] | None:
    """Return the replicas in which something may happen; None: there is something already."""
    replicas = []
    for entry in session.entries.values():
        try:
            replica = broker.by_id(entry.partition)
            replica.check_epoch(entry.known_epoch)
        except BrokerRefusedError:
            return None
        log, offset = replica.log, entry.offset
        is_outside = not log.start_offset <= offset <= log.end_offset
        is_cut = divergence(log, offset, entry.last_fetched_epoch) is not None
        if offset < replica.high_watermark or is_outside or is_cut:
            return None
        replicas.append(replica)
    return replicas


def _news(broker: MemoryBroker, session: FetchSession, bytes_max: int) -> list[WatchAnswer]:
    answers: list[WatchAnswer] = []
    room, is_first = bytes_max, True
    for entry in list(session.entries.values()):
        answer = _answer(broker, entry, min(entry.max_bytes, room), is_first=is_first)
        fetched = answer.fetched
        if fetched is not None and fetched.records:
            is_first = False
            room = max(0, room - len(fetched.records))
            session.answered(entry.partition)
        if _is_news(session, entry.partition, fetched):
            answers.append(answer)
    return answers


def _answer(
    broker: MemoryBroker, entry: SessionEntry, bytes_max: int, *, is_first: bool
) -> WatchAnswer:
    try:
        replica = broker.by_id(entry.partition)
        replica.check_epoch(entry.known_epoch)
        fetched = read_now(
            replica,
            entry.offset,
            bytes_max,
            Isolation.READ_UNCOMMITTED,
            entry.last_fetched_epoch,
            whole_first=is_first,
        )
    except BrokerRefusedError as error:
        return WatchAnswer(entry.partition, None, error.code)
    return WatchAnswer(entry.partition, fetched)


def _is_news(
    session: FetchSession, partition: BrokerPartition, fetched: FetchedRecords | None
) -> bool:
    if fetched is None:
        session.told.pop(partition, None)
        return True
    known = (fetched.high_watermark, fetched.log_start_offset)
    moved = session.told.get(partition) != known
    session.told[partition] = known
    return moved or bool(fetched.records) or fetched.diverging is not None
