"""The warning about what was assumed."""


class Assumption(UserWarning):
    """What was assumed about a file or an argument because it seemed obvious."""
