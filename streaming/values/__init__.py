"""Texts out of records' values: labels and channels that senders keep there.

`texts` what is found, and what could not be read; `json_values` values in JSON.
"""
