"""The disciplines: one package each, and what they share."""
