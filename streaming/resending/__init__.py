"""Rejects back to the input, each once: `choice` which, `ledger` what was sent, `sending` how."""
