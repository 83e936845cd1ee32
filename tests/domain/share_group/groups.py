"""What tests of the group machine share: a group, time, and applied decisions."""

from dataclasses import replace

from sharemesh.domain.ids import GroupId, MemberId, TopicId
from sharemesh.domain.share_group.context import GroupContext, TopicImage, TopicsImage
from sharemesh.domain.share_group.heartbeat import Heartbeat, heartbeat, leave, review
from sharemesh.domain.share_group.initialization import initialization_ended
from sharemesh.domain.share_group.shard import GroupShard

GROUP = GroupId("g")


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().ljust(16, b"\0"))


def catalog(**counts: int) -> TopicsImage:
    return TopicsImage(TopicImage(name, topic_id(name), count) for name, count in counts.items())


class World:
    """One shard, a clock and topics; decisions are applied as the runtime does."""

    def __init__(self, *, interval_ms=0, **counts):
        self.shard = GroupShard()
        self.group_context = GroupContext(
            catalog(**counts), now_ms=1_000_000, assignment_interval_ms=interval_ms
        )
        self.records = []
        self.plan = None

    @property
    def group(self):
        return self.shard.groups.get(GROUP)

    def topics(self, **counts):
        self.group_context = replace(self.group_context, catalog=catalog(**counts))

    def set(self, **changes):
        self.group_context = replace(self.group_context, **changes)

    def advance(self, ms):
        self.set(now_ms=self.group_context.now_ms + ms)

    def keep(self, outcome):
        self.records = list(outcome.records)
        for record in outcome.records:
            self.shard.apply(record, 0)
        self.set(epoch_floor=self.shard.epoch_floor)
        self.shard.validate()
        return outcome.answer

    def replay(self, *records):
        for record in records:
            self.shard.apply(record, 0)

    def beat(self, name, epoch, topics=None, **more):
        names = None if topics is None else tuple(topics)
        request = Heartbeat(GROUP, MemberId(name), epoch, subscribed_topic_names=names, **more)
        answer = self.keep(heartbeat(self.group, request, self.group_context))
        self.plan = answer.initialize
        return answer

    def leave(self, name, principal=""):
        catalog = self.group_context.catalog
        return self.keep(leave(self.group, GROUP, MemberId(name), catalog, principal=principal))

    def review(self):
        self.plan = self.keep(review(self.group, self.group_context))
        return self.plan

    def initialized(self, plan=None, failed=None):
        plan = plan or self.plan
        self.keep(initialization_ended(self.group, plan, failed or {}, self.group_context))

    def joined(self, name, topics):
        """Join, initialize, and return the epoch at which the member has its partitions."""
        answer = self.beat(name, 0, topics)
        if self.plan is not None:
            self.initialized()
        return self.beat(name, answer.member_epoch).member_epoch
