"""Bugs of fencing tokens: what makes a later delivery look no later, and a store that trusts."""

from dataclasses import replace

from sharemesh.client.records import FencingToken
from sharemesh.share_leader.requests.acquisition import FetchAcquisition
from tests.simulation.checkers import tokens
from tests.simulation.patching import Patches


def stores_do_not_look_at_tokens(patch: Patches) -> None:
    """Applications write whatever is there: what most do today."""
    patch.setattr(tokens, "accepts", lambda _rows, _place, _token: True)


def _with(patch: Patches, **wrong) -> None:
    real = FetchAcquisition._acquire

    def acquire(acquisition, runner, result, order, remaining):
        taken = real(acquisition, runner, result, order, remaining)
        if taken is None or not taken.ranges:
            return taken
        return replace(taken, **{name: say(runner, taken) for name, say in wrong.items()})

    patch.setattr(FetchAcquisition, "_acquire", acquire)


def tokens_begin_again_with_a_leader(patch: Patches) -> None:
    """The text of a token has the number of the acquisition alone."""
    patch.setattr(FencingToken, "__str__", lambda token: f"{token.acquisition_number:016x}")


def acquisitions_have_no_number(patch: Patches) -> None:
    """The delivery count alone tells deliveries of a leader epoch apart; some do not count."""
    _with(patch, acquisition_number=lambda _runner, _taken: 1)
