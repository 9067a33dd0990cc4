"""What may be done to groups: the rules that all directories of groups share."""

from __future__ import annotations

from collections.abc import Collection, Container

GROUPS_MAX = 100_000


class ChangeError(ValueError):
    """A change of groups that was refused; no group was changed.

    `reason` is a word for it. `version`: the group's, where that was the reason.
    """

    def __init__(self, reason: str, text: str, version: int | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.version = version


def require_change(op: str, group: str, members: Collection[str], groups: Container[str]) -> None:
    """ChangeError where a group of ``groups`` cannot be removed or set, or a new one added.

    ``op`` is one of `add`, `set`, `remove`, `join` and `leave`; the last two name one member.
    """
    if op == "add" and group in groups:
        raise ChangeError("group-exists", f"{group} exists; use set to change its members")
    if op != "add" and group not in groups:
        remedy = "" if op in ("remove", "leave") else "; add it first"
        raise ChangeError("unknown-group", f"there is no group {group}{remedy}")
    if op == "add":
        require_members(group, len(members), "name at least one")
    elif op != "remove":
        require_members(group, len(members))


def require_members(group: str, count: int, remedy: str = "remove it instead") -> None:
    """ChangeError where a group would have nobody in it."""
    if not count:
        raise ChangeError("no-members", f"{group} would have no members; {remedy}")


def require_version(group: str, version: int, expected: int | None) -> None:
    """ChangeError where somebody changed a group since its version was looked at."""
    if expected not in (None, version):
        raise ChangeError(
            "version-moved", f"{group} has version {version}, not {expected}", version
        )


def require_room(count: int, groups_max: int) -> None:
    """ChangeError where there are too many groups for one more."""
    if count >= groups_max:
        raise ChangeError("too-many-groups", f"there are {groups_max} groups, the limit")
