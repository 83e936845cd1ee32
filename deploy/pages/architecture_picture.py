"""docs/architecture.svg: the processes, and who calls whom."""

from dataclasses import dataclass
from html import escape

from deploy.pages import DOCS

PAGE = DOCS / "architecture.svg"
WIDTH, HEIGHT = 960, 500
LINE = 17

STYLE = """
  svg { background: #ffffff }
  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #3b4351 }
  .title { font-size: 14px; font-weight: 600; fill: #1a2030 }
  .call { font-size: 12px; fill: #2f5fa8 }
  .frame { fill: #f7f8fa; stroke: #b8c0cc; stroke-dasharray: 5 4 }
  .client { fill: #fff7e6; stroke: #c98a1b }
  .role { fill: #eaf1fb; stroke: #2f5fa8 }
  .store { fill: #eef6ee; stroke: #4c8a4c }
  .aside { fill: #f6f2fa; stroke: #7a5ca8 }
  rect { stroke-width: 1.5 }
  path { fill: none; stroke: #5a6577; stroke-width: 1.5; marker-end: url(#end) }
  .both { marker-start: url(#end) }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A process, a store or a client."""

    kind: str
    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """An arrow from who calls to who answers, and its words."""

    path: str
    x: int
    y: int
    words: tuple[str, ...]
    anchor: str = "middle"
    both: bool = False


BOXES = (
    Box("frame", 290, 14, 660, 346, "", ()),
    Box("client", 14, 60, 160, 80, "Producer", ("sends record batches,", "in any language")),
    Box("client", 14, 232, 160, 80, "Share consumer", ("acknowledges records,", "in any language")),
    Box(
        "role",
        314,
        50,
        250,
        100,
        "Share leader",
        ("record log of a topic-partition,", "records in flight, locks"),
    ),
    Box(
        "role", 314, 232, 250, 80, "Group coordinator", ("members, assignments", "of a share group")
    ),
    Box(
        "role",
        690,
        110,
        236,
        100,
        "Share coordinator",
        ("durable state of share partitions:", "what is acknowledged"),
    ),
    Box("role", 690, 260, 236, 70, "Controller", ("which process leads what",)),
    Box("store", 290, 410, 210, 70, "etcd", ("leases, epochs, topics,", "settings; never records")),
    Box(
        "store",
        526,
        410,
        210,
        70,
        "Data directory",
        ("fenced logs, synced before", "anything is confirmed"),
    ),
    Box(
        "aside", 774, 410, 176, 70, "Spark", ("compacts the state log,", "tells what became of it")
    ),
)
CALLS = (
    Call("M174,85 H310", 242, 78, ("Produce",)),
    Call(
        "M174,250 C245,250 230,125 310,125",
        226,
        164,
        ("ShareFetch, Consume,", "ShareAcknowledge"),
        "end",
    ),
    Call("M174,285 H310", 242, 304, ("heartbeat,", "assignment"), both=True),
    Call("M564,90 C640,90 620,140 686,140", 600, 82, ("read and write state",), "start"),
    Call(
        "M564,265 C640,265 620,185 686,185", 576, 290, ("initialize and", "delete state"), "start"
    ),
    Call("M395,360 V406", 405, 388, ("leases, watches",), "start", both=True),
    Call("M631,360 V406", 641, 388, ("logs",), "start", both=True),
    Call("M774,445 H740", 757, 436, ("reads",)),
)
TITLE = "A cluster: one process for each role, several of each"


def page() -> str:
    """Return the whole picture."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"',
        '     aria-label="The processes of Sharemesh, and who calls whom">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"',
        '  markerHeight="8" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 Z"',
        '  style="fill: #5a6577; stroke: none; marker-end: none"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    parts += [_box(box) for box in BOXES]
    parts.append(f'<text x="306" y="36">{escape(TITLE)}</text>')
    parts += [_arrow(call) for call in CALLS]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(box: Box) -> str:
    middle = box.x + box.width // 2
    top = box.y + (box.height - LINE * (len(box.lines) + 1)) // 2 + 13
    rect = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="8"'
    parts = [f'<rect class="{box.kind}" {rect}/>']
    for number, line in enumerate((box.title, *box.lines)):
        how = ' class="title"' if number == 0 else ""
        at = f'x="{middle}" y="{top + number * LINE}" text-anchor="middle"'
        parts.append(f"<text{how} {at}>{escape(line)}</text>")
    return "\n".join(parts)


def _arrow(call: Call) -> str:
    parts = [
        f'<path{" class=" + chr(34) + "both" + chr(34) if call.both else ""} d="{call.path}"/>'
    ]
    for number, line in enumerate(call.words):
        at = f'x="{call.x}" y="{call.y + number * LINE}" text-anchor="{call.anchor}"'
        parts.append(f'<text class="call" {at}>{escape(line)}</text>')
    return "\n".join(parts)
