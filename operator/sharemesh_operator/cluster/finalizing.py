"""What an end waits for."""


class RetryLaterError(Exception):
    """The clean-up cannot be done now; the message says why. It is tried again, within bounds."""
