"""This program caches rendered pages in a dict that has no bound. It keeps the last 50 requests."""

import collections
import os
import signal
import time

pages = {}
recent = collections.deque(maxlen=50)


def render(number):
    pages[number] = f"page {number} " * 70  # LEAK


def request(number):
    recent.append(bytearray(900))
    return [str(number)] * 20


for number in range(2000):
    render(number)
    request(number)
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGTERM)  # ends the program before Python frees its objects
