"""Records what is refused, changed and looked at, outside of what answers the calls."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

from google.protobuf.message import Message

from sharemesh.audit.classes import AUDIT_CLASSES, AuditClass, Recorded, TopicName
from sharemesh.audit.events import (
    RESOURCES_MAX,
    AuditDecision,
    AuditEvent,
    Kind,
    Resource,
    bounded,
    cut,
    resource,
)
from sharemesh.audit.trail import AuditTrail
from sharemesh.authorization.access import RIGHTS
from sharemesh.authorization.refusals import HEARER, Refusal
from sharemesh.domain.errors import ErrorCode
from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import (
    REFUSALS,
    CallContext,
    CallFailedError,
    Failure,
    Listener,
    Stream,
)
from sharemesh.telemetry.trace_context import TRACEPARENT, current_request, parsed

_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
    }
)
"""Nothing was tried here, but perhaps where the caller goes next."""

_UNSURE = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The change may be stored."""

_UNSURE_FAILURES = frozenset({Failure.DEADLINE_EXCEEDED, Failure.UNAVAILABLE, Failure.INTERNAL})
_log = logging.getLogger(__name__)


class AuditedListener:
    """Fills ``ports.network.Listener`` before another one.

    A method without an audit class cannot be offered (AUD-1).
    """

    def __init__(self, listener: Listener, trail: AuditTrail, topic_name: TopicName) -> None:
        self._listener = listener
        self._trail = trail
        self._topic_name = topic_name

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Answer a unary method (see the port), and record what its class says."""
        found: AuditClass = AUDIT_CLASSES[method.name]
        if isinstance(found, Recorded):
            self._listener.offer(method, self._recorded(method, found, handler))
            return
        trail, name = self._trail, method.name

        async def answer(request: Request, context: CallContext) -> Response:
            token = HEARER.set(_Call(trail, name, context))
            try:
                return await handler(request, context)
            finally:
                HEARER.reset(token)

        self._listener.offer(method, answer)

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Answer a stream method (see the port), and record what it is refused."""
        assert not isinstance(AUDIT_CLASSES[method.name], Recorded), "streams only carry traffic"
        trail, name = self._trail, method.name

        async def answer(stream: Stream[Response, Request], context: CallContext) -> None:
            token = HEARER.set(_Call(trail, name, context))
            try:
                await handler(stream, context)
            finally:
                HEARER.reset(token)

        self._listener.offer_stream(method, answer)

    def _recorded(
        self,
        method: Method[Request, Response],
        found: Recorded,
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> Callable[[Request, CallContext], Awaitable[Response]]:
        """Return a handler whose outcome is recorded, however it ends (AUD-4)."""

        async def answer(request: Request, context: CallContext) -> Response:
            outcome = _Outcome(self._trail, method.name, context, found, _is_trial(request))
            outcome.began(request, self._topic_name)
            token = HEARER.set(outcome)
            try:
                response = await handler(request, context)
            except CallFailedError as failed:
                outcome.failed(failed.failure)
                raise
            except Exception:
                outcome.lost(Failure.INTERNAL)
                raise
            except BaseException:
                outcome.lost(Failure.CANCELLED)
                raise
            finally:
                HEARER.reset(token)
            outcome.answered(response)
            return response

        return answer


class _Call:
    """Hears what is refused within one call, or within tasks that it began."""

    __slots__ = ("_context", "_method", "_trail", "granted")

    def __init__(self, trail: AuditTrail, method: str, context: CallContext) -> None:
        self.granted = False
        self._trail = trail
        self._method = method
        self._context = context

    def refused(self, refusal: Refusal) -> None:
        """Note a refusal; of another principal's, the connection and the RPC are not known."""
        context = self._context
        same = refusal.principal == context.principal
        named = bool(refusal.resource_type)
        self._trail.note(
            AuditEvent(
                Kind.REFUSAL,
                cut(refusal.principal),
                cut(context.peer) if same else "",
                self._method if same else "",
                AuditDecision.REFUSED,
                operation=refusal.operation,
                resources=(resource(refusal.resource_type, refusal.name),) if named else (),
                error=refusal.error.name,
                error_code=refusal.error,
                trace_id=trace_of(context) if same else "",
            )
        )


class _Outcome(_Call):
    """What is recorded of one call of a recorded method.

    Of a request at most ``RESOURCES_MAX`` entries are named before its handler has looked at
    rights and bounds: whoever may do nothing must not make naming them expensive.
    """

    __slots__ = ("_audited", "_entries", "_is_trial", "_name", "_parts", "_refused", "_trace_id")

    def __init__(
        self,
        trail: AuditTrail,
        method: str,
        context: CallContext,
        audited: Recorded,
        is_trial: bool,  # noqa: FBT001
    ) -> None:
        super().__init__(trail, method, context)
        self._audited = audited
        self._is_trial = is_trial
        self._trace_id = trace_of(context)
        self._parts: Sequence[object] = ()
        self._name: Callable[[object], Resource] = _unnamed
        self._entries: list[Resource] = []
        self._refused: set[tuple[str, str]] = set()

    def refused(self, refusal: Refusal) -> None:
        """Note a refusal, and which entry it was: nothing became of it."""
        self._refused.add((refusal.resource_type, cut(refusal.name)))
        super().refused(refusal)

    def began(self, request: Message, topic_name: TopicName) -> None:
        """Read what the request is about, before the handler can be cancelled."""
        self._name = lambda part: self._audited.named(part, request, topic_name)
        try:
            parts = self._audited.parts(request)
            self._entries = [self._name(each) for each in islice(parts, RESOURCES_MAX)]
            self._parts = parts
        except Exception:  # an audit that fails must not refuse the call
            _log.exception("the audit log cannot name what %s is about", self._method)

    def answered(self, response: Message) -> None:
        """Note one event for each decision and error among the entries of the answer."""
        with self._guarded():
            self._sort(response)

    def failed(self, failure: Failure) -> None:
        """The handler refused the call as a whole, or lost what it called itself."""
        if failure in REFUSALS or failure is Failure.RESOURCE_EXHAUSTED:
            return  # a refusal, recorded as one
        if failure in _UNSURE_FAILURES:
            self.lost(failure)
            return
        with self._guarded():
            self._note(AuditDecision.FAILED, failure.name, 0, range(len(self._parts)))

    def lost(self, failure: Failure) -> None:
        """The handler ended without an answer: what it began may go on."""
        with self._guarded():
            self._unsure(failure.name, range(len(self._parts)))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """The change is made: the audit log must not make it look failed."""
        try:
            yield
        except Exception:
            _log.exception("the audit log cannot tell what became of %s", self._method)

    def _sort(self, response: Message) -> None:
        found: dict[tuple[AuditDecision, str, int], list[int]] = {}
        codes = iter(self._audited.codes(response))
        unanswered: list[int] = []
        for position in range(len(self._parts)):
            code = next(codes, None)
            if code is None:
                unanswered.append(position)
            elif code not in RIGHTS and code not in _ELSEWHERE:
                key = (_decision(code), _name(code) if code else "", code)
                found.setdefault(key, []).append(position)
        for (decision, error, code), positions in found.items():
            self._note(decision, error, code, positions)
        if unanswered:
            _log.warning("an answer of %s lacks %d outcomes", self._method, len(unanswered))
            self._unsure("", unanswered)

    def _unsure(self, error: str, positions: Sequence[int]) -> None:
        """Note what may have become of entries; nothing did before a right was granted."""
        if not self.granted:
            return
        if self._refused:
            positions = [each for each in positions if not self._is_refused(each)]
            if not positions:
                return
        self._note(AuditDecision.UNKNOWN, error, 0, positions)

    def _is_refused(self, position: int) -> bool:
        entry = self._entry(position)
        topic = cut(self._audited.topic(self._parts[position]))
        if topic and ("topic", topic) in self._refused:
            return True
        return (entry.type, entry.name) in self._refused

    def _entry(self, position: int) -> Resource:
        if position < len(self._entries):
            return self._entries[position]
        return self._name(self._parts[position])

    def _note(
        self, decision: AuditDecision, error: str, code: int, positions: Sequence[int]
    ) -> None:
        """Note an event; a change of more than one line names has several."""
        if self._is_trial:
            return
        while True:
            resources = bounded(self._entry(each) for each in positions[:RESOURCES_MAX])
            positions = positions[len(resources) :]
            event = AuditEvent(
                Kind.LOOK if self._audited.is_look else Kind.CHANGE,
                cut(self._context.principal),
                cut(self._context.peer),
                self._method,
                decision,
                resources=resources,
                error=error,
                error_code=code,
                trace_id=self._trace_id,
            )
            if not event.is_change:
                self._trail.note(replace(event, more=len(positions)))
                return
            self._trail.note(event)
            if not positions:
                return


def _unnamed(_: object) -> Resource:
    return resource("", "")


def trace_of(context: CallContext) -> str:
    """Return the trace of a call: that of its span, else the caller's; empty without one."""
    request = current_request()
    if request is not None:
        return f"{request.context.trace_id:032x}"
    for name, value in context.metadata:
        if name == TRACEPARENT:
            found = parsed(value.encode())
            return f"{found.trace_id:032x}" if found is not None else ""
    return ""


def _is_trial(request: Message) -> bool:
    return bool(getattr(request, "validate_only", False))


def _decision(code: int) -> AuditDecision:
    if not code:
        return AuditDecision.DONE
    return AuditDecision.UNKNOWN if code in _UNSURE else AuditDecision.FAILED


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def refused_call(trail: AuditTrail) -> Callable[[str, str, str, str], None]:
    """Return what hears of calls that a transport refuses before there is a handler (AUD-3)."""

    def refused(method: str, principal: str, peer: str, status: str) -> None:
        trail.note(
            AuditEvent(
                Kind.REFUSAL,
                cut(principal),
                cut(peer),
                cut(method),
                AuditDecision.REFUSED,
                error=status,
            )
        )

    return refused
