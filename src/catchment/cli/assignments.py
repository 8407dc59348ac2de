"""`KEY=VALUE` as it is written on a command line."""


def parse_assignment(text: str) -> tuple[str, str]:
    """Name and value; the value may hold further equal signs. ValueError says what is wrong."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return name.strip(), value.strip()
