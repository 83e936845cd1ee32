"""The operator's Role holds what it needs, and nothing that reaches further."""

from tests.charts import rendering

NEVER = {"secrets", "pods/exec", "pods/attach", "pods/portforward", "pods/eviction", "nodes"}
VALUES = {"etcd": {"endpoints": ["http://etcd:2379"]}}


def rules() -> list[dict]:
    return rendering.of_kind(rendering.documents("sharemesh", VALUES), "Role")[0]["rules"]


def test_the_role_has_no_wildcards_and_none_of_what_it_must_never_have():
    for rule in rules():
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not NEVER & set(rule["resources"])
        assert not {"bind", "escalate", "impersonate"} & set(rule["verbs"])


def test_pods_can_not_be_created_and_claims_only_be_read():
    for rule in rules():
        if "pods" in rule["resources"]:
            assert "create" not in rule["verbs"]
        if "persistentvolumeclaims" in rule["resources"]:
            assert set(rule["verbs"]) <= {"get", "list", "watch"}


def test_nothing_of_the_operator_is_cluster_wide():
    found = rendering.documents("sharemesh", VALUES)
    kinds = {document["kind"] for document in found}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding"}


def test_the_role_lies_where_the_operator_looks():
    found = rendering.documents("sharemesh", VALUES | {"operator": {"namespace": "elsewhere"}})
    for kind in ("Role", "RoleBinding"):
        assert rendering.of_kind(found, kind)[0]["metadata"]["namespace"] == "elsewhere"
    subject = rendering.of_kind(found, "RoleBinding")[0]["subjects"][0]
    assert subject["namespace"] == "queues"


def test_users_views_and_edits_reach_the_custom_resources_only_if_asked():
    found = rendering.documents("sharemesh", VALUES | {"rbac": {"aggregate": True}})
    for role in rendering.of_kind(found, "ClusterRole"):
        assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {"sharemesh.io"}
