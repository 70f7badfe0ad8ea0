"""The application that gunicorn (app) and Tornado (this file as a program, with a port) serve. An answer depends only on its request."""

import hashlib
import json
import sys
import zlib


def table(number):
    """Builds many small objects, and then text from them."""
    rows = [{"row": n, "name": f"row {n * number % 977}", "of": [n * k % 101 for k in range(n % 9)]} for n in range(number % 400)]
    rows.sort(key=lambda row: (row["name"], row["row"]))
    return json.dumps({"rows": rows, "words": sorted({w for row in rows for w in row["name"].split()})}).encode()


def answer(path, body):
    kind, _, number = path.strip("/").partition("/")
    if kind == "table":
        return table(int(number))
    if kind == "packed":
        return zlib.compress(table(int(number)) * 5, 6)
    if kind == "echo":
        return hashlib.sha256(body).hexdigest().encode() + b" " + body[::-1]
    return b"hello\n"


def app(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    said = answer(environ["PATH_INFO"], body)
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("Content-Length", str(len(said)))])
    return [said]


def tornado(port):
    import asyncio
    import signal

    from tornado import web

    class Any(web.RequestHandler):
        async def get(self, path):
            # Half of the work runs on other threads, as in real handlers.
            loop = asyncio.get_running_loop()
            self.finish(await loop.run_in_executor(None, answer, path, self.request.body))

        post = get

    async def serve():
        end = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
        server = web.Application([(r"/(.*)", Any)], compress_response=True).listen(port, "127.0.0.1")
        await end.wait()
        server.stop()

    asyncio.run(serve())


if __name__ == "__main__":
    tornado(int(sys.argv[1]))
