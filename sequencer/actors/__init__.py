"""The actors of "In-Order Message Delivery": label proxy, ordered proxy, a net that delays."""
