"""What the operator may do, what it may not, and that nothing it wanted was denied."""

from concurrent.futures import ThreadPoolExecutor

import yaml

from tests.e2e.environment import CHARTS

LISTS = yaml.safe_load((CHARTS / "sharemesh" / "files" / "permissions.yaml").read_text())
Question = tuple[str, ...]  # words of `kubectl auth can-i`
AT_ONCE = 4
CLUSTER_WIDE: list[Question] = [
    ("get", "nodes"),
    ("list", "namespaces"),
    ("get", "customresourcedefinitions.apiextensions.k8s.io"),
    ("get", "persistentvolumes"),
]


def questions(half: str) -> list[Question]:
    """Return one half of the chart's list, the last verb of each resource.

    `helm test` asks for every verb, and the API server's own table is held against the list below.
    """
    found = []
    for rule in LISTS[half]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                kind, _, sub = resource.partition("/")
                name = f"{kind}.{group}" if group else kind
                words = [name, f"--subresource={sub}"] if sub else [name]
                found.append((rule["verbs"][-1], *words))
    return found


def answers(mesh, asked: list[Question], *words: str) -> dict[Question, str]:
    """Ask the API server what the operator may do."""
    name = f"system:serviceaccount:{mesh.namespace}:sharemesh-operator"

    def ask(question: Question) -> str:
        return mesh.kube.answer("auth", "can-i", *question, f"--as={name}", *words)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(asked, pool.map(ask, asked), strict=True))


def everything(answer: str, found: dict[Question, str]) -> bool:
    """Show what was answered otherwise."""
    other = {" ".join(question): said for question, said in found.items() if said != answer}
    if other:
        print(other)
    return not other


def test_the_operator_may_do_what_it_needs(mesh):
    assert everything("yes", answers(mesh, questions("allowed")))


def test_the_operator_may_do_nothing_that_it_must_not(mesh):
    assert everything("no", answers(mesh, questions("forbidden")))


def test_the_operator_may_do_nothing_in_other_namespaces(mesh):
    assert everything("no", answers(mesh, questions("allowed"), "-n", "kube-system"))


def test_the_operator_may_not_look_at_the_cluster(mesh):
    assert everything("no", answers(mesh, CLUSTER_WIDE, "--all-namespaces"))


def test_the_operator_has_the_rights_of_the_list_and_role_pods_have_none(mesh):
    """By the table that `kubectl auth can-i --list` prints."""
    mine = rights(mesh, "sharemesh-operator")
    anybody = rights(mesh, "default")  # the account of role pods: what every account may
    wanted = {
        (f"{kind}.{group}{slash}{sub}" if group else resource, verb)
        for rule in LISTS["allowed"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for kind, slash, sub in [resource.partition("/")]
        for verb in rule["verbs"]
    }
    assert mine - anybody == wanted
    assert not anybody & wanted


def rights(mesh, account: str) -> set[tuple[str, str]]:
    """Return (resource, verb) of what an account may do in the namespace."""
    name = f"system:serviceaccount:{mesh.namespace}:{account}"
    table = mesh.kube("auth", "can-i", "--list", "--no-headers", f"--as={name}")
    found = set()
    for line in table.splitlines():
        words = line.replace("[", " [ ").replace("]", " ] ").split()
        if words and words[0] != "[":
            verbs = words[len(words) - words[::-1].index("[") : -1]
            found |= {(words[0], verb) for verb in verbs}
    return found
