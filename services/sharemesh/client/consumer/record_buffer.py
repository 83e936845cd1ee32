"""Deliveries that wait for the application, in the order in which it will see them."""

from collections import deque
from collections.abc import Callable, Iterator

from sharemesh.client.consumer.deliveries import Delivery


class RecordBuffer:
    """A queue of deliveries that is counted, and cut, by records.

    Attributes:
        records: Acquired offsets in it, gaps included.
    """

    def __init__(self) -> None:
        self._held: deque[Delivery] = deque()
        self.records = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._held)

    def append(self, delivery: Delivery) -> None:
        """Put a delivery at the end."""
        self._held.append(delivery)
        self.records += delivery.record_count

    def put_back(self, delivery: Delivery) -> None:
        """Put a delivery at the beginning: it was taken too early."""
        self._held.appendleft(delivery)
        self.records += delivery.record_count

    def take(self, wanted: int) -> list[Delivery]:
        """Remove and return the first ``wanted`` records, or all."""
        found: list[Delivery] = []
        while self._held and wanted > 0:
            delivery = self._held.popleft()
            count = delivery.record_count
            if count > wanted:
                delivery, rest = delivery.split(wanted)
                self._held.appendleft(rest)
                count = wanted
            found.append(delivery)
            wanted -= count
            self.records -= count
        return found

    def take_last(self, surplus: int) -> list[Delivery]:
        """Remove and return the last ``surplus`` records, or all."""
        found: list[Delivery] = []
        while self._held and surplus > 0:
            delivery = self._held.pop()
            count = delivery.record_count
            if count > surplus:
                kept, delivery = delivery.split(count - surplus)
                self._held.append(kept)
                count = surplus
            found.append(delivery)
            surplus -= count
            self.records -= count
        return found

    def remove(self, condition: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove and return the deliveries for which ``condition`` is true."""
        found = [held for held in self._held if condition(held)]
        if found:
            self._held = deque(held for held in self._held if not condition(held))
            self.records -= sum(held.record_count for held in found)
        return found
