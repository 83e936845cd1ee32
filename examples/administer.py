"""Topics, groups, offsets and configurations from a program.

python examples/administer.py 127.0.0.1:9400 orders billing
"""

import sys

from sharemesh.client import connect
from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.errors import InvalidConfigError, TopicAlreadyExistsError


def main(bootstrap: str, topic: str, group: str) -> None:
    """Create a topic and a group, look at them, reset the group."""
    with connect(bootstrap).admin() as admin:
        try:
            admin.create_topic(topic, partitions=2)
        except TopicAlreadyExistsError as error:
            print(error)
        for name, description in admin.describe_topics([topic]).items():
            print(name, description)
        try:
            admin.alter_group_configs(group, {"share.delivery.count.limit": "1000"})
        except InvalidConfigError as error:
            print("refused:", error)
        admin.alter_group_configs(group, {"share.delivery.count.limit": "3"})
        offsets = {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
        for where, problem in admin.alter_share_group_offsets(group, offsets).items():
            print(where, problem or "starts at 0")
        print(admin.list_share_group_offsets(group))
        print([each.group_id for each in admin.list_groups(states=["Empty"])])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
