"""Parses command lines: options in any place, hints at the nearest word, no guessing."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from sharemesh.cli.formatting import nearest

_CARRIED = "carried"
"""Where options that stand before the command wait for it."""


class CommandParser(argparse.ArgumentParser):
    """A command, or a level above commands.

    A command takes its options before, between and behind its arguments. A level above hands
    what ``carry`` named to the command, which takes or refuses it as if it stood behind. Help
    keeps the lines of descriptions and examples.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)
        self.register("action", "parsers", Commands)
        self._within = False

    def carry(self, *options: str, flags: Sequence[str] = ()) -> None:
        """Take these options, with a value each, and these without, for the command below."""
        for option in options:
            self.add_argument(option, action=_Carry, dest=_CARRIED, help=argparse.SUPPRESS)
        for flag in flags:
            self.add_argument(flag, action=_Carry, nargs=0, dest=_CARRIED, help=argparse.SUPPRESS)

    def commands(self, **words: Any) -> "Commands":  # noqa: ANN401 - those of argparse
        """Return what commands below are added to."""
        found = self.add_subparsers(**words)
        assert isinstance(found, Commands)
        return found

    @property
    def subcommands(self) -> dict[str, "CommandParser"]:
        """The commands below, by name."""
        return {
            name: parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, parser in action.choices.items()
        }

    def parse_known_args(  # type: ignore[override] # this class has one kind of namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; what a command does not know is refused by that command."""
        if self._within:
            return super().parse_known_args(args, namespace)
        if self.subcommands or self._takes_the_rest:
            if self.subcommands:
                self._check_options(sys.argv[1:] if args is None else args)
            found, unknown = super().parse_known_args(args, namespace)
        else:
            self._within = True  # the method called here calls this one
            try:
                found, unknown = super().parse_known_intermixed_args(args, namespace)
            finally:
                self._within = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._hint(unknown)}")
        return found, []

    def _check_options(self, args: Sequence[str]) -> None:
        """Refuse an unknown option before its value is taken for the name of a command."""
        for word in args:
            if word in self.subcommands or word == "--":
                return
            name = word.partition("=")[0]
            known = any(each.startswith(name) for each in self._option_string_actions)
            if name.startswith("--") and not known:
                self.error(f"unrecognized arguments: {word}{self._hint([word])}")

    @property
    def _takes_the_rest(self) -> bool:
        return any(each.nargs == argparse.REMAINDER for each in self._actions)

    def _hint(self, unknown: Sequence[str]) -> str:
        options = [each.partition("=")[0] for each in unknown if each.startswith("--")]
        return nearest(options[0], self._option_string_actions) if options else ""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a word that is none of the choices, with the nearest one."""
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        raise argparse.ArgumentError(
            action,
            f"invalid choice: {str(value)!r}{nearest(str(value), known)} "
            f"(choose from {', '.join(known)})",
        )


class _Carry(argparse.Action):
    """Keeps an option for the command."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401
        option_string: str | None = None,
    ) -> None:
        """Note the option with its value."""
        carried = getattr(namespace, self.dest, None) or []
        word = f"{option_string}={values}" if self.nargs is None else str(option_string)
        setattr(namespace, self.dest, [*carried, word])


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg] # generic in stubs only
    """Chooses the command and gives it the options that stood before its name."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401
        option_string: str | None = None,
    ) -> None:
        """Parse what follows the command's name; what was given before it stays."""
        carried = getattr(namespace, _CARRIED, None) or []
        setattr(namespace, _CARRIED, None)
        given = {
            name: value
            for name, value in vars(namespace).items()
            if value != parser.get_default(name)
        }
        name, *rest = values
        super().__call__(parser, namespace, [name, *carried, *rest], option_string)
        command: argparse.ArgumentParser = self.choices[name]
        for dest, value in given.items():
            if getattr(namespace, dest) == command.get_default(dest):
                setattr(namespace, dest, value)
