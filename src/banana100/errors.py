"""The one exception that a user's mistake may raise."""


class UserError(Exception):
    """A mistake in what the user gave us (params, images, weights, environment).

    The command line shows its message as one sentence and exits with 2, without a traceback.
    """
