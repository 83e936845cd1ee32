"""Placement: caps, stickiness, minimal moves, determinism, standbys (property tests)."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from sharemesh.domain.ids import NodeId
from sharemesh.domain.placement import (
    PartitionShape,
    Placement,
    PlacementNode,
    load_cap,
    plan,
    plan_in_steps,
    ranking,
)

RACKS = ("", "r1", "r2", "r3")


def text(key: str) -> str:
    return key


def make_nodes(count: int, racks=RACKS) -> list[PlacementNode]:
    return [PlacementNode(NodeId(f"n{i}"), racks[i % len(racks)]) for i in range(count)]


def keys(count: int) -> list[str]:
    return [f"t/{i}" for i in range(count)]


def leaders(placements) -> dict[str, str]:
    return {key: placed.leader for key, placed in placements.items()}


counts = st.integers(0, 120)
sizes = st.integers(1, 9)


@given(counts, sizes)
def test_no_node_is_above_its_cap_and_everything_is_placed(count, size):
    nodes = make_nodes(size)
    placed = plan(keys(count), nodes, {}, text=text).placements
    assert set(placed) == set(keys(count))
    cap = load_cap(count, nodes)
    load = Counter(p.leader for p in placed.values())
    assert all(load[node] <= cap[node] for node in load)


@given(counts, st.integers(2, 9), st.data())
def test_one_lost_node_moves_only_its_partitions_and_first_to_standbys(count, size, data):
    nodes = make_nodes(size)
    before = plan(keys(count), nodes, {}, text=text).placements
    lost = data.draw(st.sampled_from(nodes)).node_id
    left = [node for node in nodes if node.node_id != lost]
    result = plan(keys(count), left, before, text=text, max_moves=0)
    cap = load_cap(count, left)
    load = Counter(p.leader for p in result.placements.values())
    assert result.voluntary_moves == 0
    assert all(load[node] <= cap[node] for node in load)
    full = {node for node in load if load[node] == cap[node]}
    for key, placed in result.placements.items():
        if before[key].leader != lost:
            assert placed.leader == before[key].leader
        elif placed.leader not in before[key].standbys:
            assert set(before[key].standbys) <= full  # a standby was passed over only if full


@given(counts, sizes, st.integers(0, 2**32))
def test_the_order_in_which_things_are_listed_does_not_matter(count, size, seed):
    print("seed", seed)
    rng = random.Random(seed)
    partitions, nodes = keys(count), make_nodes(size)
    first = plan(partitions, nodes, {}, text=text)
    rng.shuffle(partitions)
    rng.shuffle(nodes)
    assert plan(partitions, nodes, {}, text=text) == first


@given(counts, sizes)
def test_a_plan_that_is_carried_out_is_stable(count, size):
    nodes = make_nodes(size)
    first = plan(keys(count), nodes, {}, text=text).placements
    again = plan(keys(count), nodes, first, text=text)
    assert again.placements == first
    assert again.voluntary_moves == 0


@given(counts, sizes, st.integers(0, 5))
def test_voluntary_moves_stay_within_their_limit(count, size, limit):
    nodes = make_nodes(size)
    before = plan(keys(count), nodes, {}, text=text).placements
    more = make_nodes(size + 2)
    result = plan(keys(count), more, before, text=text, max_moves=limit)
    moved = sum(result.placements[key].leader != before[key].leader for key in before)
    assert moved == result.voluntary_moves <= limit


@given(st.integers(20, 120), st.integers(2, 6))
def test_a_new_node_is_filled_in_rounds_until_nobody_is_above_the_cap(count, size):
    nodes = make_nodes(size)
    placements = plan(keys(count), nodes, {}, text=text).placements
    more = make_nodes(size + 1)
    for _ in range(count + 1):
        result = plan(keys(count), more, placements, text=text, max_moves=3)
        placements = result.placements
        if not result.voluntary_moves:
            break
    load = Counter(p.leader for p in placements.values())
    cap = load_cap(count, more)
    assert all(load[node] <= cap[node] for node in load)
    assert load[f"n{size}"] >= int(0.9 * count / (size + 1))


@given(counts, st.integers(2, 8), st.data())
def test_a_draining_node_is_emptied_and_gets_nothing(count, size, data):
    nodes = make_nodes(size)
    before = plan(keys(count), nodes, {}, text=text).placements
    out = data.draw(st.sampled_from(nodes)).node_id
    now = [PlacementNode(n.node_id, n.rack, draining=n.node_id == out) for n in nodes]
    after = plan(keys(count), now, before, text=text, max_moves=0).placements
    assert all(out not in (p.leader, *p.standbys) for p in after.values())
    for key, placed in after.items():
        if before[key].leader != out:
            assert placed.leader == before[key].leader


@given(st.integers(1, 60), sizes)
def test_standbys_are_two_others_and_of_other_racks_while_there_are_any(count, size):
    nodes = make_nodes(size)
    racks = {node.node_id: node.rack for node in nodes}
    for placed in plan(keys(count), nodes, {}, text=text).placements.values():
        everyone = [placed.leader, *placed.standbys]
        assert len(set(everyone)) == len(everyone) == min(3, size)
        used = {racks[node] for node in everyone}
        assert len(used) == min(len(everyone), len(set(racks.values())))


def test_a_lost_node_does_not_change_the_order_of_the_others():
    nodes = make_nodes(8)
    full = [node.node_id for node in ranking("x", nodes)]
    left = [node.node_id for node in ranking("x", nodes[:3] + nodes[4:])]
    assert left == [node_id for node_id in full if node_id != "n3"]


def test_without_nodes_nothing_is_placed_and_draining_leaders_keep_what_they_have():
    assert plan(keys(3), [], {}, text=text).placements == {}
    alone = [PlacementNode(NodeId("n0"), draining=True)]
    current = {"t/0": Placement(NodeId("n0")), "t/1": Placement(NodeId("gone"))}
    assert plan(keys(3), alone, current, text=text).placements == {"t/0": current["t/0"]}


def test_weights_scale_the_share():
    nodes = [PlacementNode(NodeId("big"), weight=3.0), PlacementNode(NodeId("small"))]
    load = Counter(p.leader for p in plan(keys(400), nodes, {}, text=text).placements.values())
    assert load["big"] <= 330
    assert load["small"] <= 110
    assert load["small"] >= 70


@settings(max_examples=5, deadline=None)
@given(st.integers(1_000, 1_500))
def test_planning_comes_in_small_steps(count):
    steps = plan_in_steps(keys(count), make_nodes(10), {}, text=text)
    assert sum(1 for _ in steps) >= 2 * count // 100


def test_an_operator_may_choose_another_slack_and_more_or_no_standbys():
    nodes = [PlacementNode(NodeId(f"n{number}")) for number in range(5)]
    partitions = list(range(100))
    shape = PartitionShape(load_slack=0.0, standbys=4)
    found = plan(partitions, nodes, {}, text=str, shape=shape)
    loads = Counter(placed.leader for placed in found.placements.values())
    assert set(loads.values()) == {20}
    assert all(len(placed.standbys) == 4 for placed in found.placements.values())
    bare = plan(partitions, nodes, {}, text=str, shape=PartitionShape(standbys=0))
    assert all(placed.standbys == () for placed in bare.placements.values())


def test_planning_gives_way_while_it_fills_low_nodes():
    # Two of ten nodes are empty; the others are at their share or above it, none above its cap.
    loads = (150, 150, 150, 150, 100, 100, 100, 100, 0, 0)
    owners = [NodeId(f"n{number}") for number, load in enumerate(loads) for _ in range(load)]
    everything = keys(len(owners))
    current = {key: Placement(owner) for key, owner in zip(everything, owners, strict=True)}

    def steps(max_moves):
        shape = PartitionShape(load_slack=0.5)
        nodes = make_nodes(len(loads))
        planning = plan_in_steps(
            everything, nodes, current, text=text, max_moves=max_moves, shape=shape
        )
        return sum(1 for _ in planning)

    assert steps(None) > steps(0)
