"""This program has a connection that buffers what it sends, and never empties the buffer. The received chunks are dropped every 40 times."""

import os
import signal
import time


class Connection:
    def __init__(self):
        self.sent = []
        self.received = []

    def send(self, number):
        self.sent.append(b"%d " % number * 160)  # LEAK

    def receive(self):
        if len(self.received) == 40:
            self.received.clear()
        self.received.append(bytes(1500))


connection = Connection()
for number in range(2000):
    connection.send(number)
    connection.receive()
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGTERM)  # ends the program before Python frees its objects
