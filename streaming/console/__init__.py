"""A console in the browser: a process of its own beside the service, which shows order.

`access` decides who may read and act, `history` remembers figures, `newest` reads topics from their
ends, `lanes` draws a channel, `actions` sends commands, and `app` puts the pages together. It reads
the checkpoint's figures and Kafka's topics, and never the state of the running service.
"""
