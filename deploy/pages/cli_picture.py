"""`python -m deploy.pages.cli_picture`: writes docs/cli.svg, real commands and their answers.

The commands run against a cluster of their own, which `sharemesh up` starts for this. What they
print has times and member ids, so the picture is made anew when a command changes, and not by
`make docs`.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from deploy.pages import DOCS

PAGE = DOCS / "cli.svg"
COMMANDS = (
    "sharemesh topics create orders",
    """echo '{"id": "a1", "amount": 10}' | sharemesh produce orders --key id""",
    "sharemesh consume orders --group billing --from-beginning --max-records 1 --action release",
    "sharemesh consume orders --group billing --max-records 1",
    "sharemesh groups describe billing",
    "sharemesh explain --group billing orders/0@0",
)
WIDTH = 118
BIN = Path(sys.executable).parent
THEME = TerminalTheme(
    (28, 32, 40),
    (220, 224, 232),
    [
        *((28, 32, 40), (224, 108, 117), (152, 195, 121), (229, 192, 123)),
        *((97, 175, 239), (198, 120, 221), (86, 182, 194), (220, 224, 232)),
    ],
)
FORMAT = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img"
 aria-label="A terminal: records are produced, consumed, and explained">
<style>
  .{unique_id}-matrix {{ font-family: ui-monospace, monospace; font-size: {char_height}px;
    line-height: {line_height}px }}
  {styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
  <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
<rect fill="#1c2028" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
"""Rich's own picture loads a font from elsewhere."""


def transcript(bootstrap: str) -> list[tuple[str, str]]:
    """Run the commands; return each with what it printed."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    known = {**os.environ, "PATH": path, "SHAREMESH_BOOTSTRAP": bootstrap}
    return [
        (
            command,
            subprocess.run(
                ["bash", "-c", command],  # noqa: S607
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=known,
            ).stdout,
        )
        for command in COMMANDS
    ]


def picture(said: list[tuple[str, str]]) -> str:
    """Return the picture of a terminal with these commands and answers."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), legacy_windows=False)
    for command, answer in said:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=False)
        console.print(Text(answer.rstrip()), soft_wrap=False)
    return console.export_svg(theme=THEME, code_format=FORMAT, unique_id="cli")


def main() -> int:
    """Start a cluster, run the commands, write the picture."""
    directory = Path(tempfile.mkdtemp())
    up = subprocess.Popen(
        [BIN / "sharemesh", "up", "--plain", "--base-port", "0", "--data-directory", directory],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None
        ready = next(line for line in up.stdout if line.startswith("ready bootstrap="))
        said = transcript(ready.strip().partition("=")[2].partition(",")[0])
        PAGE.write_text(picture(said), encoding="utf-8")
    finally:
        up.terminate()
        up.communicate()
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
