"""The application's side of a share consumer: records in flight, rules of acknowledging.

Used by one thread at a time; only ``take_outcomes`` may be called by the network's side.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sharemesh.client.consumer.column_reader import ColumnReader
from sharemesh.client.consumer.deliveries import (
    AcknowledgementResult,
    AcquiredIn,
    Delivery,
    PartitionAcknowledgements,
    ReleaseTerms,
    Route,
    UniformTypes,
    runs_of,
)
from sharemesh.client.consumer.delivery_reader import DeliveryReader
from sharemesh.client.consumer.records_in_hand import RecordsInHand
from sharemesh.client.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidTopicError,
    RecordDeserializationError,
    RequestTimedOutError,
    SharemeshError,
)
from sharemesh.client.record_columns import RecordColumns
from sharemesh.client.records import ConsumerRecord, Deserializer, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType

CommitCallback = Callable[[Mapping[TopicIdPartition, set[int]], SharemeshError | None], object]
CommitResult = dict[TopicIdPartition, SharemeshError | None]

UNACKNOWLEDGED = "All records must be acknowledged in explicit acknowledgement mode."
IMPLICIT = "Implicit acknowledgement of delivery is being used."
NOT_HELD = "The record cannot be acknowledged."

_log = logging.getLogger(__name__)
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True)
class _Commit:
    """A commit that waits: how many offsets are unanswered, and the results so far."""

    unanswered: int
    results: CommitResult


@dataclass(frozen=True, slots=True)
class _Renewal:
    record: ConsumerRecord
    route: Route
    lock_timeout_ms: int = 0


class ConsumerState:
    """What the application holds and has said of it."""

    def __init__(
        self,
        *,
        explicit: bool,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        check_crcs: bool,
    ) -> None:
        self._explicit = explicit
        self._key = key_deserializer
        self._value = value_deserializer
        self._check_crcs = check_crcs
        self._held: list[RecordsInHand] = []
        self._gaps: list[PartitionAcknowledgements] = []
        self._readers: deque[DeliveryReader] = deque()
        self._outcomes: deque[AcknowledgementResult] = deque()
        self._commits: dict[int, _Commit] = {}
        self._last_ticket = 0
        self._renewing: dict[tuple[TopicIdPartition, int], _Renewal] = {}
        self._renewed: dict[tuple[TopicIdPartition, int], _Renewal] = {}
        self._callback: CommitCallback | None = None
        self._in_callback = False
        self.subscription: frozenset[str] = frozenset()
        self.lock_timeout_ms: int | None = None

    @property
    def is_explicit(self) -> bool:
        """Whether each record is acknowledged by the application."""
        return self._explicit

    # ---- checks ---------------------------------------------------------------------------------

    def set_callback(self, callback: CommitCallback | None) -> None:
        """Register the callback for results of acknowledgements; None unregisters."""
        self._callback = callback

    def check_not_in_callback(self) -> None:
        """Refuse calls from inside the callback (spec CL-17).

        Raises:
            IllegalStateError: The callback is running.
        """
        if self._in_callback:
            raise IllegalStateError(
                "the acknowledgement commit callback must not call the consumer, except wakeup"
            )

    def subscribe(self, topics: Sequence[str] | None) -> None:
        """Replace the subscription.

        Raises:
            IllegalArgumentError: ``topics`` is None or holds a blank name (spec CL-4).
        """
        if not isinstance(topics, Sequence) or isinstance(topics, str):
            raise IllegalArgumentError("the topics to subscribe to must be a list of names")
        for name in topics:
            if not str(name or "").strip():
                raise IllegalArgumentError("a topic name to subscribe to must not be blank")
        self.subscription = frozenset(topics)

    def begin_poll(self) -> list[PartitionAcknowledgements]:
        """Check what poll demands and return the acknowledgements to send with it (spec CL-6).

        Raises:
            IllegalStateError: A record is unacknowledged in explicit mode, or there is no
                subscription.
            InvalidTopicError: A subscribed name is not allowed.
        """
        if self._explicit and any(held.is_undecided for held in self._held):
            raise IllegalStateError(UNACKNOWLEDGED)
        if not self.subscription:
            raise IllegalStateError("the consumer is not subscribed to any topic")
        for name in sorted(self.subscription):
            if not _LEGAL_TOPIC.fullmatch(name) or name in (".", ".."):
                raise InvalidTopicError(
                    f"the topic name {name!r} is not allowed: letters, digits, '.', '_' and '-', "
                    "at most 249",
                    about=f"topic {name}",
                )
        return self.collect(accept_all=not self._explicit)

    # ---- acknowledging --------------------------------------------------------------------------

    def acknowledge(
        self, record: ConsumerRecord, kind: AcknowledgeType, terms: ReleaseTerms | None = None
    ) -> None:
        """Decide on a record in flight; a later decision before sending replaces it (CL-11).

        Raises:
            IllegalStateError: Implicit mode, or the record is not in flight.
        """
        self._check_explicit()
        for held in self._held:
            if (
                record.offset in held.types
                and record.offset not in held.failed
                and held.source == record.topic_id_partition
            ):
                held.types[record.offset] = kind
                held.terms.pop(record.offset, None)
                if terms is not None:
                    held.terms[record.offset] = terms
                return
        raise IllegalStateError(NOT_HELD)

    def acknowledge_batch(
        self, columns: RecordColumns, kind: AcknowledgeType, offsets: Iterable[int] | None
    ) -> None:
        """Decide on records of columns in flight; None: on all of them (spec CL-31).

        Raises:
            IllegalStateError: Implicit mode, or one of them is not in flight; nothing is decided.
            IllegalArgumentError: RENEW (spec CL-33).
        """
        self._check_explicit()
        if kind is AcknowledgeType.RENEW:
            raise IllegalArgumentError("columns cannot be renewed: take records with poll for that")
        held = next((each for each in self._held if each.columns is columns), None)
        if held is None:
            raise IllegalStateError(NOT_HELD)
        if offsets is None and not held.is_empty:
            held.decide(kind)
            return
        chosen = dict.fromkeys(offsets or ()).keys()
        if not chosen <= held.types.keys():
            raise IllegalStateError(NOT_HELD)
        held.types.update(dict.fromkeys(chosen, kind))

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType
    ) -> None:
        """Override the decision on a record that made poll raise (spec CL-12).

        Raises:
            IllegalStateError: Implicit mode, or that offset did not make poll raise.
        """
        self._check_explicit()
        for held in self._held:
            if held.source[:2] == (topic, partition) and offset in held.failed:
                held.types[offset] = kind
                return
        raise IllegalStateError(NOT_HELD)

    def _check_explicit(self) -> None:
        if not self._explicit:
            raise IllegalStateError(IMPLICIT)

    def collect(
        self, *, accept_all: bool, deadline_ms: int = 0, commit: bool = False
    ) -> list[PartitionAcknowledgements]:
        """Remove acknowledged records from flight and return them for sending.

        ``accept_all`` accepts what is undecided (spec CL-6, CL-15). With ``commit`` the returned
        acknowledgements share a ticket, see ``commit_pending``.
        """
        ticket = 0
        if commit:
            self._last_ticket += 1
            ticket = self._last_ticket
        sending: dict[AcquiredIn, PartitionAcknowledgements] = {}
        left: list[RecordsInHand] = []
        for held in self._held:
            types = self._decided(held, accept_all=accept_all)
            if types:
                where = (held.source, held.route, held.leader_epoch)
                new = PartitionAcknowledgements(*where, types, ticket, deadline_ms)
                if held.terms:
                    new = replace(new, terms=held.terms)
                    held.terms = {}
                self._merge(sending, new)
            if not held.is_empty:
                left.append(held)
        self._held = left
        for gap in self._gaps:
            self._merge(sending, replace(gap, ticket=ticket, deadline_ms=deadline_ms))
        self._gaps = []
        if commit:
            self._commits[ticket] = _Commit(sum(len(each.types) for each in sending.values()), {})
        return list(sending.values())

    @staticmethod
    def _merge(
        sending: dict[AcquiredIn, PartitionAcknowledgements], new: PartitionAcknowledgements
    ) -> None:
        key = (new.source, new.route, new.leader_epoch)  # a partition may have come back (HND-11)
        old = sending.get(key)
        if old is not None:
            both = None
            if isinstance(old.types, UniformTypes) and not old.terms and not new.terms:
                both = old.types.with_those_behind(new.types)
            if both is not None:
                new = replace(new, types=both)
            else:
                terms = {**(old.terms or {}), **(new.terms or {})}
                new = replace(new, types={**old.types, **new.types}, terms=terms or None)
        sending[key] = new

    def _decided(self, held: RecordsInHand, *, accept_all: bool) -> Mapping[int, AcknowledgeType]:
        """Take the decided offsets out of ``held``; renewed ones wait for their result."""
        whole = held.take_all(accept=accept_all)
        if whole is not None:
            return whole
        if accept_all and not held.failed:
            types = dict.fromkeys(held.types, AcknowledgeType.ACCEPT)
            held.types.clear()
            return types
        decided: dict[int, AcknowledgeType] = {}
        for offset, kind in list(held.types.items()):
            chosen = AcknowledgeType.ACCEPT if kind is None and accept_all else kind
            if chosen is None:
                continue
            decided[offset] = chosen
            del held.types[offset]
            record = held.records.pop(offset, None)
            if chosen is AcknowledgeType.RENEW and record is not None:
                self._renewing[held.source, offset] = _Renewal(record, held.route)
        return decided

    # ---- results --------------------------------------------------------------------------------

    def take_outcomes(self, outcomes: Sequence[AcknowledgementResult]) -> None:
        """Take results from the network's side; looked at by ``settle_outcomes``."""
        for outcome in outcomes:
            commit = self._commits.get(outcome.acknowledgements.ticket)
            if commit is not None:
                source = outcome.acknowledgements.source
                known = commit.results.get(source)
                commit.results[source] = known if known is not None else outcome.error
                commit.unanswered -= len(outcome.acknowledgements.types)
            self._outcomes.append(outcome)

    def commit_pending(self) -> bool:
        """Whether the last commit waits for answers."""
        commit = self._commits.get(self._last_ticket)
        return commit is not None and commit.unanswered > 0

    def finish_commit(
        self, sent: Sequence[PartitionAcknowledgements], timeout_ms: int
    ) -> CommitResult:
        """Return the result of the last commit; what has no answer is REQUEST_TIMED_OUT."""
        commit = self._commits.pop(self._last_ticket)
        results = dict(commit.results)
        if commit.unanswered > 0:
            for each in sent:
                results.setdefault(
                    each.source,
                    RequestTimedOutError(
                        f"no answer within {timeout_ms} ms; it may still take effect",
                        about=str(each.source),
                    ),
                )
        return results

    def settle_outcomes(self) -> None:
        """Move renewals on and run due callbacks, on the application's thread.

        Raises:
            Exception: Whatever the callback raises (spec CL-17).
        """
        refused: dict[tuple[TopicIdPartition, str], int] = {}
        while self._outcomes:
            outcome = self._outcomes.popleft()
            self._settle_renewals(outcome)
            if outcome.error is not None and self._is_unnoticed(outcome):
                place = (outcome.acknowledgements.source, str(outcome.error))
                refused[place] = refused.get(place, 0) + len(outcome.acknowledgements.types)
            if self._callback is not None:
                answered = outcome.acknowledgements
                self._in_callback = True
                try:
                    self._callback({answered.source: set(answered.types)}, outcome.error)
                finally:
                    self._in_callback = False
        for (source, why), count in refused.items():
            _log.warning(
                "%d acknowledgements of %s were refused (%s): these records are delivered again. "
                "If their locks ended first: poll fewer at a time (max.poll.records), lengthen "
                "share.record.lock.duration.ms of the group, or let run() renew the locks",
                count,
                source,
                why,
            )

    def _is_unnoticed(self, outcome: AcknowledgementResult) -> bool:
        """Return whether neither a callback nor the result of a commit reports a refusal."""
        return self._callback is None and not outcome.acknowledgements.ticket

    def _settle_renewals(self, outcome: AcknowledgementResult) -> None:
        answered = outcome.acknowledgements
        if not self._renewing:
            return
        renewed = 0
        for offset, kind in answered.types.items():
            if kind is not AcknowledgeType.RENEW:
                continue
            renewal = self._renewing.pop((answered.source, offset), None)
            if renewal is not None and outcome.error is None:
                self._renewed[answered.source, offset] = _Renewal(
                    renewal.record, renewal.route, outcome.lock_timeout_ms
                )
                renewed += 1
        if renewed:  # at debug: it happens all the time (KIP-1222)
            _log.debug("%d acquisition locks of %s renewed", renewed, answered.source)

    # ---- handing out ----------------------------------------------------------------------------

    @property
    def is_renewing(self) -> bool:
        """Whether renewals are unanswered, so that nothing new is fetched (spec CL-24)."""
        return bool(self._renewing)

    @property
    def has_renewed(self) -> bool:
        """Whether renewed records wait to be handed out again."""
        return bool(self._renewed)

    def collect_gaps(self) -> list[PartitionAcknowledgements]:
        """Take the GAP acknowledgements that are due (spec CL-14)."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def accept(self, deliveries: Sequence[Delivery]) -> None:
        """Take over fetched deliveries, and acknowledge their gaps with the next sending."""
        for delivery in deliveries:
            reader = DeliveryReader(delivery, self._key, self._value, check_crcs=self._check_crcs)
            for offset in delivery.offsets() if self._renewed else ():
                self._renewed.pop((delivery.source, offset), None)  # delivered again
            self._add_gaps(delivery, reader.gaps)
            self._readers.append(reader)

    def _add_gaps(self, delivery: Delivery, gaps: Sequence[int]) -> None:
        if gaps:
            types = dict.fromkeys(gaps, AcknowledgeType.GAP)
            self._gaps.append(PartitionAcknowledgements(*delivery.acquired_in, types))

    def hand_out(self) -> list[ConsumerRecord]:
        """Return renewed records, or else the fetched ones, now in flight; see ``leftover``.

        Raises:
            RecordDeserializationError: The next record cannot be deserialized (spec CL-13).
            CorruptRecordError: The next batch is corrupt.
        """
        if self._renewed:
            return self._hand_out_renewed()
        records: list[ConsumerRecord] = []
        while self._readers:
            reader = self._readers[0]
            good, failure, failed = reader.take(failures=not records)
            if failure is not None:
                self._hold_failed(reader.delivery, failed, failure)
                raise failure
            if good:
                self._hold(reader.delivery, good)
                records.extend(good)
            if not reader.is_read:
                break  # the next thing in it is a failure: for the next poll
            self._readers.popleft()
        return records

    def accept_columns(
        self, deliveries: Sequence[Delivery]
    ) -> tuple[list[RecordColumns], list[Delivery], SharemeshError | None]:
        """Return fetched deliveries as columns, now in flight (spec CL-31).

        Also what was not returned, as it lies behind a failure, and the failure if it came first.
        """
        found: list[RecordColumns] = []
        readers = deque(ColumnReader(each, check_crcs=self._check_crcs) for each in deliveries)
        for reader in readers:
            self._add_gaps(reader.delivery, reader.gaps)
        failure: CorruptRecordError | None = None
        while readers:
            reader = readers[0]
            columns, failure = reader.take(failures=not found)
            if columns is not None:
                self._hold_columns(reader.delivery, columns)
                found.append(columns)
            elif failure is not None:
                offsets = range(failure.offset, failure.last_offset + 1)
                self._hold_failed(reader.delivery, offsets, failure)
            if failure is not None or not reader.is_read:
                break  # the next thing in it is a failure: for the next poll
            readers.popleft()
        rest = [left for reader in readers if (left := reader.rest()) is not None]
        return found, rest, failure

    def _hold_columns(self, delivery: Delivery, columns: RecordColumns) -> None:
        self._held.append(RecordsInHand(*delivery.acquired_in, columns.runs, columns=columns))
        self.lock_timeout_ms = delivery.lock_timeout_ms

    def leftover(self) -> list[Delivery]:
        """Remove fetched records that were not returned: they lie behind a failure."""
        readers, self._readers = self._readers, deque()
        return [rest for reader in readers if (rest := reader.rest()) is not None]

    def _hold(self, delivery: Delivery, records: Sequence[ConsumerRecord]) -> None:
        held = RecordsInHand(*delivery.acquired_in, runs_of([each.offset for each in records]))
        if self._explicit:
            held.records = {each.offset: each for each in records}
        self._held.append(held)
        self.lock_timeout_ms = delivery.lock_timeout_ms

    def _hold_failed(self, delivery: Delivery, offsets: range, failure: SharemeshError) -> None:
        kind = (
            AcknowledgeType.RELEASE
            if isinstance(failure, RecordDeserializationError)
            else AcknowledgeType.REJECT
        )
        self._held.append(
            RecordsInHand(*delivery.acquired_in, [offsets], kind, failed=set(offsets))
        )

    def _hand_out_renewed(self) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        for renewal in self._renewed.values():
            record = renewal.record
            where = (record.topic_id_partition, renewal.route, record.leader_epoch)
            run = range(record.offset, record.offset + 1)
            self._held.append(RecordsInHand(*where, [run], records={record.offset: record}))
            self.lock_timeout_ms = renewal.lock_timeout_ms or self.lock_timeout_ms
            records.append(record)
        self._renewed.clear()
        return records

    def drop_everything(self) -> None:
        """Forget what is held: the sessions end and their records are released."""
        self._held.clear()
        self._readers.clear()
        self._gaps.clear()
        self._renewing.clear()
        self._renewed.clear()
