"""Who a caller is: the cluster's secret, a certificate, a header, in this order."""

import pytest

from sharemesh.rpc.principals import SECRET_HEADER, Principals

NOBODY = {}
CERTIFIED = {"x509_common_name": [b"ann"]}
SECRET = "s" * 32


@pytest.mark.parametrize(
    ("principals", "identity", "metadata", "expected"),
    [
        (Principals(), NOBODY, [], "User:ANONYMOUS"),
        (Principals(), CERTIFIED, [], "User:ann"),
        (Principals(), NOBODY, [("x-user", "bob")], "User:ANONYMOUS"),
        (Principals(), NOBODY, [(SECRET_HEADER, "")], "User:ANONYMOUS"),
        (Principals(header="x-user"), NOBODY, [("x-user", "bob")], "User:bob"),
        (Principals(header="x-user"), NOBODY, [("x-user", "")], "User:ANONYMOUS"),
        (Principals(header="x-user"), NOBODY, [("x-user", "b" * 1_001)], "User:ANONYMOUS"),
        (Principals(header="x-user"), CERTIFIED, [("x-user", "bob")], "User:ann"),
        (Principals(SECRET, "Node:n"), NOBODY, [(SECRET_HEADER, SECRET)], "Node:n"),
        (Principals(SECRET, "Node:n"), CERTIFIED, [(SECRET_HEADER, "wrong")], "User:ann"),
        (Principals(SECRET, "Node:n", "x-user"), NOBODY, [("x-user", "Node:n")], "User:Node:n"),
        (Principals("", "Node:n"), NOBODY, [(SECRET_HEADER, "")], "User:ANONYMOUS"),
    ],
)
def test_the_first_proof_counts(principals, identity, metadata, expected):
    assert principals.of(identity, metadata) == expected
