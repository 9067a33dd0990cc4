"""A console in the browser: a process of its own beside the service, which shows order.

`access` decides who may read and act, `guard` what requests and answers may hold, `history`
remembers figures, `views` makes what pages show, `actions` sends commands, and `app` puts the pages
together. It reads the checkpoint's figures and Kafka's topics, never the state of the running
service.
"""
