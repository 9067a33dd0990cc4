"""A console in the browser: a process of its own beside the service, which shows order.

`access` decides who may read and act, `guard` what requests and answers may hold, `history`
remembers figures and `prometheus` asks for older ones, `views` and `streams` (lanes) make what
`pages` show, `groups_now` follows the groups and `drawing` draws them. `effects` says what a change
of groups would do, `actions` sends the commands of `forms`; the `desk` is what pages and forms
share, and `app` puts them together. It reads the checkpoint's figures and Kafka's topics, never the
state of the running service.
"""
