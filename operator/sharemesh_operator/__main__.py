"""``python -m sharemesh_operator``: one replica of the operator."""

import asyncio
import logging
import os
import signal
import sys

from sharemesh.telemetry.logs import set_up_logs
from sharemesh_operator.cluster.credentials import CredentialsError
from sharemesh_operator.operator_process import OperatorProcess
from sharemesh_operator.settings import OperatorSettings, SettingsError, operator_settings

SETTINGS_WRONG = 2
FAILED = 1


async def _run(settings: OperatorSettings) -> None:
    process = OperatorProcess(settings, os.environ)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, process.stop)
    await process.run()


def main() -> int:
    """Run the operator until it is told to stop; return its exit code."""
    try:
        settings = operator_settings(sys.argv[1:], os.environ)
        set_up_logs(
            log_format=settings.log_format,
            level=settings.log_level,
            origin={"operator": settings.identity},
        )
        logging.getLogger("kopf").setLevel(logging.WARNING)  # it speaks of every object it sees
        asyncio.run(_run(settings))
    except (SettingsError, CredentialsError) as error:
        print(f"sharemesh-operator: {error}", file=sys.stderr)
        return SETTINGS_WRONG
    except OSError as error:
        print(f"sharemesh-operator: {error}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
