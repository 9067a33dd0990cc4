"""The provider of tokens for SASL's OAUTHBEARER."""

from __future__ import annotations

from kafka.net.sasl.oauth import AbstractTokenProvider


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Gives kafka-python the `token()` and its `extensions()` for each connection.

    kafka-python accepts only a subclass of its own AbstractTokenProvider.
    """

    def forget(self) -> None:
        """Give another token from now on, if there is one: a broker refused the last."""
