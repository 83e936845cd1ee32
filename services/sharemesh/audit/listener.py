"""Records what is refused, changed and looked at, outside of what answers the calls."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain, repeat

from google.protobuf.message import Message

from sharemesh.audit.classes import AUDIT_CLASSES, AuditClass, Recorded, TopicName
from sharemesh.audit.events import AuditDecision, AuditEvent, Kind, Resource, bounded, cut, resource
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
            handler = self._recorded(method, found, handler)
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
            outcome.answered(response)
            return response

        return answer


class _Call:
    """Hears what is refused within one call, or within tasks that it began."""

    __slots__ = ("_context", "_method", "_trail")

    def __init__(self, trail: AuditTrail, method: str, context: CallContext) -> None:
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


class _Outcome:
    """What is recorded of one call of a recorded method."""

    def __init__(
        self,
        trail: AuditTrail,
        method: str,
        context: CallContext,
        audited: Recorded,
        is_trial: bool,  # noqa: FBT001
    ) -> None:
        self._trail = trail
        self._method = method
        self._context = context
        self._audited = audited
        self._is_trial = is_trial
        self._trace_id = trace_of(context)
        self._entries: list[Resource] = []

    def began(self, request: Message, topic_name: TopicName) -> None:
        """Read what the request is about, before the handler can be cancelled."""
        try:
            self._entries.extend(self._audited.entries(request, topic_name))
        except Exception:  # an audit that fails must not refuse the call
            _log.exception("the audit log cannot name what %s is about", self._method)

    def answered(self, response: Message) -> None:
        """Note one event for each decision and error among the entries of the answer."""
        try:
            self._sort(response)
        except Exception:  # the change is made: the audit log must not make it look failed
            _log.exception("the audit log cannot tell what became of %s", self._method)

    def _sort(self, response: Message) -> None:
        found: dict[tuple[AuditDecision, str, int], list[Resource]] = {}
        codes = chain(self._audited.codes(response), repeat(0))
        for each, code in zip(self._entries, codes, strict=False):
            if code in RIGHTS or code in _ELSEWHERE:
                continue
            decision = _decision(code)
            error = _name(code) if code else ""
            found.setdefault((decision, error, code), []).append(each)
        for (decision, error, code), resources in found.items():
            self._note(decision, error, code, resources)

    def failed(self, failure: Failure) -> None:
        """The handler refused the call as a whole, or lost what it called itself."""
        if failure in REFUSALS or failure is Failure.RESOURCE_EXHAUSTED:
            return  # a refusal, recorded as one
        if failure in _UNSURE_FAILURES:
            self.lost(failure)
        else:
            self._note(AuditDecision.FAILED, failure.name, 0, self._entries)

    def lost(self, failure: Failure) -> None:
        """The handler ended without an answer: what it began may go on."""
        self._note(AuditDecision.UNKNOWN, failure.name, 0, self._entries)

    def _note(
        self, decision: AuditDecision, error: str, code: int, entries: Iterable[Resource]
    ) -> None:
        if self._is_trial:
            return
        resources, more = bounded(entries)
        self._trail.note(
            AuditEvent(
                Kind.LOOK if self._audited.is_look else Kind.CHANGE,
                cut(self._context.principal),
                cut(self._context.peer),
                self._method,
                decision,
                resources=resources,
                more=more,
                error=error,
                error_code=code,
                trace_id=self._trace_id,
            )
        )


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
