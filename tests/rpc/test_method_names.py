"""The RPCs keep their names: unary ones are made from their request, so each is written here."""

from sharemesh.methods import METHODS

NAMES = """
GroupCoordinator/ShareGroupHeartbeat
GroupCoordinator/ShareGroupHeartbeatStream
GroupCoordinator/ShareGroupDescribe
GroupCoordinator/ListGroups
GroupCoordinator/DeleteGroups
GroupCoordinator/DescribeShareGroupOffsets
GroupCoordinator/AlterShareGroupOffsets
GroupCoordinator/DeleteShareGroupOffsets
GroupCoordinator/DescribeGroupConfigs
GroupCoordinator/AlterGroupConfigs
ShareLeader/ShareFetch
ShareLeader/ShareAcknowledge
ShareLeader/Consume
ShareLeader/HoldSession
ShareLeader/Explain
ShareCoordinator/InitializeShareGroupState
ShareCoordinator/ReadShareGroupState
ShareCoordinator/WriteShareGroupState
ShareCoordinator/DeleteShareGroupState
ShareCoordinator/ReadShareGroupStateSummary
ShareCoordinator/ReadShareRecordHistory
ShareCoordinator/CommitGeneration
RecordLog/Produce
RecordLog/InitProducerId
RecordLog/Fetch
RecordLog/ListOffsets
RecordLog/DeleteRecords
RecordLog/WriteTxnMarkers
RecordLog/DescribeProducers
Admin/ApiVersions
Admin/Metadata
Admin/FindCoordinator
Admin/CreateTopics
Admin/DeleteTopics
Admin/DescribeTopics
Admin/CreatePartitions
Admin/AttachTopics
Admin/DetachTopics
Admin/DescribeConfigs
Admin/AlterConfigs
Admin/DescribeCluster
Admin/CreateAcls
Admin/DeleteAcls
Admin/DescribeAcls
Admin/AlterClientQuotas
Admin/DescribeClientQuotas
Admin/AlterUserScramCredentials
Admin/DescribeUserScramCredentials
Admin/AcceptLoss
Admin/DrainNode
"""


def test_the_names_of_all_rpcs_are_those_written_here():
    assert [each.name for each in METHODS] == NAMES.split()
