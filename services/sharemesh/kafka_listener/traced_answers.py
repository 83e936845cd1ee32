"""A SERVER span around each request of Kafka's clients; made only where spans are written."""

from sharemesh.kafka_listener.answers import Frame, KafkaAnswers
from sharemesh.kafka_listener.frames import RefusedFrameError
from sharemesh.kafka_listener.held_sessions import HeldSessions
from sharemesh.kafka_listener.login.logins import ConnectionLogin
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.kafka_listener.request_header import kind_of
from sharemesh.kafka_listener.served_requests import BY_KEY
from sharemesh.ports.network import CallContext
from sharemesh.telemetry import names
from sharemesh.telemetry.spans import Span, SpanKind, Spans
from sharemesh.telemetry.trace_context import REQUEST, RequestSpan

_SYSTEM = "kafka"


class TracedAnswers:
    """Answers frames as others do; what is done for a request is a child of its span.

    Kafka's clients send no trace with a request: each span begins a trace.
    """

    def __init__(self, answers: KafkaAnswers, spans: Spans) -> None:
        self._answers = answers
        self._spans = spans

    @property
    def handlers(self) -> OfferedHandlers:
        """What is asked for the answers."""
        return self._answers.handlers

    def close(self) -> None:
        """Answer nothing long any more."""
        self._answers.close()

    async def answer(
        self, frame: bytes, context: CallContext, sessions: HeldSessions, login: ConnectionLogin
    ) -> Frame:
        """Return the answer to a frame.

        Raises:
            RefusedFrameError: There is none; the connection is to be closed.
        """
        key, version = kind_of(frame)
        spans, began_ns = self._spans, self._spans.now_ns()
        request = RequestSpan(spans.context(), is_stream=False)
        token = REQUEST.set(request)
        attributes: dict[str, object] = {
            names.RPC_SYSTEM: _SYSTEM,
            names.RPC_METHOD: BY_KEY[key].label,
            names.KAFKA_API_VERSION: version,
        }
        error = ""
        try:
            answered = await self._answers.answer(frame, context, sessions, login)
            attributes[names.RPC_STATUS] = "OK"
            return answered
        except RefusedFrameError as refused:
            error = refused.reason
            raise
        except BaseException as failed:
            error = type(failed).__name__  # cancelled: a client that went away
            raise
        finally:
            request.open = False
            REQUEST.reset(token)
            times = (began_ns, spans.now_ns())
            name = f"{_SYSTEM}.{BY_KEY[key].label}"
            spans.end(
                Span(
                    name, request.context, None, *times, attributes,
                    kind=SpanKind.SERVER, error=error,
                )
            )  # fmt: skip
