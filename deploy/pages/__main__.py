"""`python -m deploy.pages`: writes every page that is made from code, as `make docs` does."""

from deploy.pages import (
    architecture_picture,
    command_line,
    configuration,
    custom_resources,
    error_codes,
    grpc,
    kafka_requests,
    permission_outcomes,
    permissions,
    python_api,
    rights,
)

MADE = (
    architecture_picture,
    command_line,
    configuration,
    custom_resources,
    error_codes,
    grpc,
    kafka_requests,
    permission_outcomes,
    permissions,
    python_api,
    rights,
)
"""All but the picture of the command line: that one starts a cluster."""


def main() -> None:
    """Write the pages."""
    for made in MADE:
        made.PAGE.write_text(made.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
