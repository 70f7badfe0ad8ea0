"""orders.py PORT: an HTTP server with a thread for each connection. It reads orders as JSON, keeps the last ones, and answers with a report."""

import json
import signal
import sys
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

kept: deque[list[dict]] = deque(maxlen=400)


def report(orders: list[dict], rows: int) -> dict:
    lines = [line for entry in orders for line in entry["lines"]]
    totals: dict[str, float] = {}
    for line in lines:
        totals[line["item"]] = totals.get(line["item"], 0.0) + line["count"] * line["price"]
    listed = [{"row": n, "name": f"row {n * 7919 % 977}", "of": [n * k % 101 for k in range(n % 9)]} for n in range(rows)]
    listed.sort(key=lambda row: row["name"])
    return {"kept": len(kept), "totals": totals, "notes": [entry["note"].title() for entry in orders], "rows": listed}


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        orders = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kept.append(orders)
        answer = json.dumps(report(orders, int(self.path.rpartition("/")[2]))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # with the default of 5, some of the first requests would wait for a repeated SYN


def main() -> None:
    server = Server(("127.0.0.1", int(sys.argv[1])), Orders)
    # A thread asks serve_forever() to end, because the call waits for that end.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()


main()
