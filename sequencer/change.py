"""What may be done to groups: the rules that all directories of groups share."""

from __future__ import annotations

from collections.abc import Collection, Container

GROUPS_MAX = 100_000


class ChangeError(ValueError):
    """A change of groups that was refused; no group was changed. `reason` is a word for it."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def require_change(op: str, group: str, members: Collection[str], groups: Container[str]) -> None:
    """ChangeError where a group of ``groups`` cannot be removed or set, or a new one added.

    ``op`` is one of `add`, `set`, `remove`.
    """
    if op == "add" and group in groups:
        raise ChangeError("group-exists", f"{group} exists; use set to change its members")
    if op != "add" and group not in groups:
        raise ChangeError("unknown-group", f"there is no group {group}; add it first")
    if op != "remove" and not members:
        raise ChangeError("no-members", f"{group} would have no members; remove it instead")


def require_room(count: int, groups_max: int) -> None:
    """ChangeError where there are too many groups for one more."""
    if count >= groups_max:
        raise ChangeError("too-many-groups", f"there are {groups_max} groups, the limit")
