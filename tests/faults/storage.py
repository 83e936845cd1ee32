"""Part storage of `make faults`."""

from tests.faults.state_log import state_kill, two_writers
from tests.faults.trials import Fault

FAULTS = (
    Fault("state_kill", 50, state_kill),
    Fault("two_writers", 50, two_writers),
)
