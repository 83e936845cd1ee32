"""Another image rolls through, one pod at a time."""

import time

from tests.e2e import disruptions, environment
from tests.e2e.kube import until


def images(mesh) -> dict[str, str]:
    """Return the image of each role pod."""
    return {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
        for role in environment.ROLES
        for pod in mesh.pods(role)
    }


def rolled(mesh, image: str) -> bool | None:
    found = images(mesh)
    return (len(found) == 6 and set(found.values()) == {image}) or None


def test_a_rolling_update_serves_all_the_time_and_loses_nothing(mesh, timings):
    topic, group = mesh.topic_and_group("rolled")
    load = mesh.load(topic, group)
    load.flows()
    started = time.monotonic()
    mesh.kube.patch("sharecluster", "main", {"spec": {"image": mesh.images.newer}})
    until("all pods run the newer image", lambda: rolled(mesh, mesh.images.newer), timeout_s=240)
    mesh.settled()
    timings.note("rolling update of six pods", time.monotonic() - started)
    load.flows()
    verdict = load.finish()
    verdict.check()
    timings.note("rolling update: longest silence", verdict.longest_silence_ms / 1000)


def test_operators_killed_in_mid_roll_are_followed_by_others_that_end_it(mesh, timings):
    other = {mesh.images.newer: mesh.images.sharemesh, mesh.images.sharemesh: mesh.images.newer}
    image = other[images(mesh)["main-share-leader-0"]]
    topic, group = mesh.topic_and_group("mid-roll")
    load = mesh.load(topic, group)
    load.flows()
    started = time.monotonic()
    mesh.kube.patch("sharecluster", "main", {"spec": {"image": image}})
    until(
        "the first pod is rolled",
        lambda: image in images(mesh).values() or None,
        timeout_s=120,
    )
    for pod in mesh.kube.names("pods", environment.OPERATOR):
        disruptions.kill_pod(mesh.kube, pod)
    assert set(images(mesh).values()) != {image}
    until("the roll is ended", lambda: rolled(mesh, image), timeout_s=240)
    mesh.settled()
    timings.note("rolling update with killed operators", time.monotonic() - started)
    verdict = load.finish()
    verdict.check()


def test_an_image_that_is_nowhere_stops_the_roll_at_one_pod_and_is_named(mesh):
    topic, group = mesh.topic_and_group("bad-image")
    load = mesh.load(topic, group)
    load.flows()
    good = images(mesh)["main-share-leader-0"]
    wrong = f"{mesh.images.registry}/sharemesh:there-is-none"
    mesh.kube.patch("sharecluster", "main", {"spec": {"image": wrong}})

    def named() -> bool | None:
        condition = mesh.kube.condition("sharecluster", "main", "Progressing")
        return (condition is not None and "ImagePull" in condition["message"]) or None

    until("the operator says which pod has no image", named, timeout_s=120)
    load.flows()
    assert sum(image == wrong for image in images(mesh).values()) == 1
    mesh.kube.patch("sharecluster", "main", {"spec": {"image": good}})
    mesh.settled(timeout_s=240)
    load.finish().check()
