"""What is there of a topic, in 64 bits, and a broker for threads that rests on it (catkit2)."""
