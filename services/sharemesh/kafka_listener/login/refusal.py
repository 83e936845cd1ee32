"""Why a login ends."""


class LoginRefusedError(Exception):
    """A login proves nothing; the message holds nothing of what was shown."""
