"""What `sequencer simulate` shows: tables and figures."""
