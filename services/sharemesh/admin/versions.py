"""Which methods and features this build speaks (DESIGN 7)."""

import sharemesh
from sharemesh.methods import METHODS, SHARE_ACKNOWLEDGE, SHARE_FETCH
from sharemesh.v1 import admin_pb2

SHARE_VERSION_FEATURE = "share.version"

_MAX_VERSIONS = {SHARE_FETCH.name: 2, SHARE_ACKNOWLEDGE.name: 2}
"""Version 2 brings RENEW and record_limit (spec VER-3); all others are at 1."""


def api_versions(share_version: int) -> admin_pb2.ApiVersionsResponse:
    """Return the versions of every method, and the feature levels in force now."""
    return admin_pb2.ApiVersionsResponse(
        methods=[
            admin_pb2.ApiVersion(
                method=method.name,
                min_version=1,
                max_version=_MAX_VERSIONS.get(method.name, 1),
            )
            for method in METHODS
        ],
        features=[admin_pb2.FeatureLevel(name=SHARE_VERSION_FEATURE, level=share_version)],
        server_version=sharemesh.__version__,
    )
