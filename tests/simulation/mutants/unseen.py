"""Bugs of what no application has seen: who keeps it, who gives it again, who hands it out late."""

from sharemesh.client.consumer.unseen_records import UnseenRecords
from sharemesh.domain.share_session import ShareSession
from tests.simulation.patching import Patches


def clients_never_hand_back(patch: Patches) -> None:
    """What waits for a busy application stays with its client until the locks end."""
    patch.setattr(UnseenRecords, "_look", lambda _records: None)


def stalled_members_are_served(patch: Patches) -> None:
    """A member that let its locks end without a word gets the same records again."""
    patch.setattr(ShareSession, "lapsed", lambda _session, _since_ms: False)


def clients_hand_out_what_they_have_lost(patch: Patches) -> None:
    """A client that stood still hands out what it had, though the locks have ended."""
    real = UnseenRecords._return

    def give_back(records, deliveries):
        now_ms = records._clock.now_ms()
        lost = [held for held in deliveries if held.expires_ms <= now_ms]
        real(records, [held for held in deliveries if held.expires_ms > now_ms])
        records.put_back(lost)

    patch.setattr(UnseenRecords, "_return", give_back)
    patch.setattr(UnseenRecords, "take", lambda records, wanted: records.buffer.take(wanted))
