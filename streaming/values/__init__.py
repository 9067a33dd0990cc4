"""Texts out of records' values: labels and channels that senders keep there.

`texts` what is found, and what could not be read; `json_values` values in JSON; `framing` which
schema a value names, `varints` the numbers in it, `schemas` what a batch knows of schemas;
`avro_values` and `protobuf_values` how values are read with them, `protobuf_files` how the latter's
are compiled, `known_files` what they may import besides.
"""
