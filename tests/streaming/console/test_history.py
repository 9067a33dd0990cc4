"""What the console remembers goes on whatever it finds: it looks again a second later."""

import socket
import threading
from dataclasses import asdict

from streaming.arrow.totals import Totals
from streaming.config import load_config
from streaming.console import history
from streaming.console.history import Recorder
from streaming.service.checkpoint import Checkpoint
from tests.kafka_helpers import until
from tests.service_helpers import channel_topics, write_config


def status(seen, **more):
    return {
        "at": f"2026-11-24T03:00:0{seen}.000+00:00",
        "shards": {"0": asdict(Totals(seen=seen)) | more},
    }


def test_figures_of_another_version_are_a_fault_until_they_can_be_read(tmp_path):
    """A newer service was started beside it."""
    config = load_config(write_config(tmp_path, "127.0.0.1:9", {"p": channel_topics("p.")}))
    checkpoint, recorder = Checkpoint.of(config, "p"), Recorder(config)
    known = recorder.pipelines["p"]
    checkpoint.write_status(status(1, of_a_newer_version=1))
    recorder.start()
    try:
        until(lambda: "of_a_newer_version" in known.fault)
        checkpoint.write_status(status(2))
        until(lambda: known.totals.seen == 2 and not known.fault)
    finally:
        recorder.stop()


def test_what_is_no_http_at_the_address_of_metrics_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            while True:
                with server.accept()[0] as client:
                    client.recv(1000)
                    client.sendall(b"\x15\x03\x03\x00\x02\x02\x50\n")

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert history.scraped(address) == {}
