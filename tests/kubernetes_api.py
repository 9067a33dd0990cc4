"""A Kubernetes API for tests: it keeps the pods that a driver asks for, and runs none of them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

DRIVER = "orders-1"
CONFLICT, CREATED, MISSING, OK = 409, 201, 404, 200
PODS = "pods"


class KubernetesApi:
    """A server with one driver's pod; a context manager. ``pods``: by name, as they were posted."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.conflicts: list[str] = []
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.add({"kind": "Pod", "metadata": {"name": DRIVER}, "spec": {}}, "Running")

    @property
    def master(self) -> str:
        """The address as `spark.master`."""
        return f"k8s://http://127.0.0.1:{self._server.server_port}"

    @property
    def executors(self) -> dict[str, dict[str, Any]]:
        """The pods but for the driver's."""
        return {name: pod for name, pod in self.pods.items() if name != DRIVER}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def add(self, pod: dict[str, Any], phase: str = "Pending") -> dict[str, Any]:
        """Keep a pod."""
        made = {"uid": f"uid-{len(self.pods)}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        pod["metadata"] |= {"namespace": "trading", "resourceVersion": "1", **made}
        pod["status"] = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
        self.pods[pod["metadata"]["name"]] = pod
        return pod

    def fail(self, name: str) -> None:
        """Let a pod's container end with an error; the pod stays, as Kubernetes keeps it."""
        state = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:01:00Z"}}
        container = {"name": "executor", "state": state}
        self.pods[name]["status"] = {"phase": "Failed", "containerStatuses": [container]}

    def listed(self, selector: str) -> list[dict[str, Any]]:
        """The pods that have all labels of a query."""
        wanted = [each.split("%3D") for each in selector.split("%2C") if "%3D" in each]
        return [
            pod
            for pod in [*self.pods.values()]
            if all(pod["metadata"].get("labels", {}).get(key) == value for key, value in wanted)
        ]

    def answer(self, method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
        """The status and the object of an answer."""
        kind, _, name = path.partition("/namespaces/trading/")[2].partition("/")
        if method == "POST" and kind == PODS:
            name = body["metadata"]["name"]
            if name in self.pods:
                self.conflicts.append(name)
                return CONFLICT, {"kind": "Status", "code": CONFLICT, "reason": "AlreadyExists"}
            return CREATED, self.add(body)
        if method == "GET" and kind == PODS and name:
            missing = {"kind": "Status", "code": MISSING}
            return (OK, self.pods[name]) if name in self.pods else (MISSING, missing)
        if method == "GET":
            selector = query.partition("labelSelector=")[2].partition("&")[0]
            items = self.listed(selector) if kind == PODS else []
            metadata = {"resourceVersion": "1"}
            return OK, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        return OK, body or {"kind": "Status", "status": "Success"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                url = urlsplit(self.path)
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                if "watch=true" in url.query:
                    api._ended.wait()  # nothing happens; Spark lists the pods, too
                    return
                status, found = api.answer(self.command, url.path, url.query, body)
                data = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
