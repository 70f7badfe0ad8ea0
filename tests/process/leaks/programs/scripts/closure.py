"""This program has a recorder whose closure keeps each event. Another function drops its events."""

import os
import signal
import time


def make_recorder():
    events = []

    def record(size):
        events.append(bytearray(size))  # LEAK
        return len(events)

    return record


def parse(number):
    return sum(len(word) for word in ("word " * 200 + str(number)).split())


record = make_recorder()
for number in range(2000):
    record(700)
    parse(number)
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGTERM)  # ends the program before Python frees its objects
