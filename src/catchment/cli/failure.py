"""What a command says when it cannot do what it was asked to do."""


class CommandError(Exception):
    """A failure for people: what happened and to what, and what to do next. The command exits with status 1."""

    def __init__(self, message: str, advice: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
