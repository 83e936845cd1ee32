"""How a command ends badly: one sentence on stderr and exit code 1."""


class CommandError(Exception):
    """The command cannot go on; the message is one clear sentence that says what to do."""

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
