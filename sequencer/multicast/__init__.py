"""Multicast by bus1's clocks or kdbus' counter: queues, transactions, nodes and handles."""
