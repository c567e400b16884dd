"""Serve a network, its calibrator and its decision as one ONNX graph over plain HTTP.

    python examples/serve.py model.onnx 8000
    curl -d '{"inputs": [[0.1, …]]}' http://127.0.0.1:8000/

An answer has ``probabilities`` and ``answer``: a class, or −1 where the model would rather not say. Only numpy and ONNX
Runtime are needed where it runs, and it listens on this machine only.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime

MOST_BYTES = 2**24


def server(path: str, port: int = 0) -> ThreadingHTTPServer:
    """A server of a graph with the outputs ``probabilities`` and ``answer``; port 0 takes a free one."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = session.get_inputs()[0]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                length = int(self.headers.get("Content-Length", 0))
                if not 0 < length <= MOST_BYTES:
                    raise ValueError(f"the body must have 1 to {MOST_BYTES:,} bytes")
                inputs = np.asarray(json.loads(self.rfile.read(length))["inputs"], dtype=np.float32)
                if inputs.ndim != len(wanted.shape) or inputs.shape[1:] != tuple(wanted.shape[1:]):
                    raise ValueError(f"`inputs` must have shape {wanted.shape}, got {list(inputs.shape)}")
                probabilities, answer = session.run(["probabilities", "answer"], {wanted.name: inputs})
                status, content = 200, {"probabilities": probabilities.tolist(), "answer": answer.tolist()}
            except (ValueError, KeyError, TypeError) as error:
                status, content = 400, {"error": str(error)}
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000).serve_forever()
