"""``sharemesh shards``: what an operator decides about coordinator shards."""

import argparse

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import counted
from sharemesh.cli.session import CommandSession, actions_of, add_admin_action
from sharemesh.client import AdminClient

_EXAMPLES = """examples:
  sharemesh shards accept-loss state-3"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser(
            "shards", help="give up what was lost of a coordinator shard", epilog=_EXAMPLES
        )
    )
    accept = add_admin_action(
        actions,
        "accept-loss",
        _accept_loss,
        help="serve a shard again although Kafka lost confirmed records of it",
        description="Serve a coordinator shard again whose log the Kafka cluster cut after it had "
        "confirmed it. What the lost records said is forgotten: acknowledgements of a state shard, "
        "members and settings of groups of a group shard. `sharemesh cluster` shows such shards. A "
        "log that is damaged otherwise stays refused: what follows a gap rests on what is gone.",
    )
    accept.add_argument("shard", metavar="SHARD", help="as `sharemesh cluster` names it")


def _accept_loss(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    lost = admin.accept_loss(args.shard)
    if session.as_json:
        session.show_json({"shard": lost.shard, "confirmed": lost.confirmed, "left": lost.left})
    session.say(
        f"shard {lost.shard}: given up {counted(lost.confirmed - lost.left, 'lost commit')} of "
        f"{lost.confirmed}; it is served again from what is left"
    )
    return 0
