"""What the application holds and has said of it: of all at once, or of each record."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from sharemesh.client.consumer.deliveries import ReleaseTerms, Route, UniformTypes
from sharemesh.client.record_columns import RecordColumns
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType


@dataclass(slots=True)
class RecordsInHand:
    """Records of one partition and session that the application holds.

    ``kind`` is what is said of all of them, None nothing, as long as nothing is said of one alone.
    """

    source: TopicIdPartition
    route: Route
    leader_epoch: int
    runs: Sequence[range]
    kind: AcknowledgeType | None = None
    records: dict[int, ConsumerRecord] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    columns: RecordColumns | None = None
    terms: dict[int, ReleaseTerms] = field(default_factory=dict)
    _types: dict[int, AcknowledgeType | None] | None = None

    @property
    def types(self) -> dict[int, AcknowledgeType | None]:
        """What is said of each; None: nothing."""
        if self._types is None:
            self._types = dict.fromkeys(chain.from_iterable(self.runs), self.kind)
        return self._types

    @property
    def is_undecided(self) -> bool:
        """Whether nothing is said of one."""
        if self._types is None:
            return self.kind is None
        return None in self._types.values()

    @property
    def is_empty(self) -> bool:
        """Whether everything was taken out."""
        return self._types is not None and not self._types

    def decide(self, kind: AcknowledgeType) -> None:
        """Say the same of all."""
        if self._types is None:
            self.kind = kind
        else:
            self._types.update(dict.fromkeys(self._types, kind))

    def take_all(self, *, accept: bool) -> UniformTypes | None:
        """Take out all, if the same is said of them; with ``accept`` even if that is nothing."""
        kind = AcknowledgeType.ACCEPT if self.kind is None and accept else self.kind
        if self._types is not None or kind is None or kind is AcknowledgeType.RENEW:
            return None
        self._types = {}
        return UniformTypes(kind, self.runs)
