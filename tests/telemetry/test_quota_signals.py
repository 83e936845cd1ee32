"""Quotas are counted from 0 on: a rate needs a series before its first event (QUO-15)."""

from sharemesh.domain.quota.names import QuotaName
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.throttling.quota_signals import QuotaSignals
from tests.clocks import ManualClock


def test_quo_15_every_quota_has_its_series_before_anything_happens():
    registry = Registry()
    QuotaSignals(registry, ManualClock(0))
    found = {reading.metric: reading for reading in registry.collect()}
    assert [value for _, value in found[names.QUOTA_REFUSALS].values] == [0] * len(QuotaName)
    assert len(found[names.QUOTA_THROTTLE_TIME].histograms) == len(QuotaName)
