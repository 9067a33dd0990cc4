"""Labels of a user's own, for the tests."""


def next_letter(label: str) -> str:
    """The letter after this one."""
    return chr(ord(label) + 1)
