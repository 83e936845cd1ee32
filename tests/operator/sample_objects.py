"""A cluster with a topic and a group, ready to be used."""


async def ready(land):
    await land.start_operator()
    await land.cluster()
    await land.topic()
    await land.group(autoOffsetReset="Earliest")
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    await land.condition("ShareTopic", "orders", "True", "InSync")
    await land.condition("ShareGroup", "billing", "True", "InSync")


def addresses(land):
    nodes = [process.node for process in land.node.processes.values() if process]
    return ",".join(f"{node.host}:{node.port}" for node in nodes)
