"""Common parts of cases with servers: loopback ports, waiting for an answer, and requests with checked answers."""

import http.client
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from .side import digest

HERE = "127.0.0.1"


kept = []  # sockets that reserve ports for servers that start later


def free_port():
    """Returns a port that stays bound until the harness ends, so that the kernel gives it to no other program. A server with SO_REUSEADDR,
    which all use, can listen on it although this socket, which does not listen, is bound to it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((HERE, 0))
    kept.append(holder)
    return holder.getsockname()[1]


class OwnNumber:
    """A number below `count` that no other run on this machine has at the same time, for suites that compute their ports from a number. An
    abstract socket holds it, and so nothing is left when the process ends."""

    def __init__(self, name, count):
        self.socket = socket.socket(socket.AF_UNIX)
        while not any(self.has(name, number) for number in range(count)):
            time.sleep(0.5)

    def has(self, name, number):
        try:
            self.socket.bind(f"\0hakmem-programs-{name}-{number}")
        except OSError:
            return False
        self.number = number
        return True

    def give_back(self):
        self.socket.close()


def answers(port, server=None, seconds=60):
    """Waits until something listens on the port. Returns False if the server ends or the time is over before that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and (server is None or server.poll() is None):
        try:
            socket.create_connection((HERE, port), timeout=5).close()
            return True
        except OSError:
            time.sleep(0.1)
    return False


def asked(port, requests, headers=None):
    """Returns {name: "status and hash of the body"} of (name, method, path, body) requests over one persistent connection."""
    found = {}
    connection = http.client.HTTPConnection(HERE, port, timeout=60)
    for name, method, path, body in requests:
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            found[name] = f"{answer.status} {digest(answer.read())}"
        except (OSError, http.client.HTTPException) as broken:
            found[name] = f"fail {type(broken).__name__}"
            connection.close()
    connection.close()
    return found


def asked_by_many(port, requests, clients=4, headers=None):
    """Does the same with several connections at once, and distributes the requests among them."""
    found = {}
    with ThreadPoolExecutor(clients) as pool:
        for part in pool.map(lambda n: asked(port, requests[n::clients], headers), range(clients)):
            found.update(part)
    return found
