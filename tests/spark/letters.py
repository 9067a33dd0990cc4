"""Labels of a user's own, for the tests."""


def next_letter(label: str) -> str:
    """The letter after this one."""
    return chr(ord(label) + 1)


def next_name(label: str) -> str:
    """The name after this one: a, b, …, z, aa, ab, …; without an end."""
    first, last = label[:-1], label[-1]
    if last != "z":
        return first + next_letter(last)
    return (next_name(first) if first else "a") + "a"
