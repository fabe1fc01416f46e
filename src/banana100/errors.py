"""The one exception that a user's mistake may raise."""


class UserError(Exception):
    """A mistake in what the user gave us (params, images, weights, environment).

    The command line shows its message as one sentence and exits with `exit_code`, without a traceback.
    """

    exit_code = 2


class Unfinished(UserError):
    """Not all could be done; what was done is kept, and the next run goes on."""

    exit_code = 1
