"""nginx: files, ranges, compression, a proxy with a cache, uploads and a reload under load; ab counts, and each answer is checked."""

import os
import random
import re
import signal

from harness.case import Case
from harness.serving import answers, asked, asked_by_many, free_port

FILES = 300
CONFIG = """
worker_processes 2; daemon off; pid {dir}/pid; error_log {dir}/error.log warn; user {user};
events {{ worker_connections 256; }}
http {{
  access_log {dir}/access.log; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s; types {{ text/plain txt; }} etag off; client_max_body_size 8m;
  proxy_cache_path {dir}/cache keys_zone=kept:1m; map_hash_bucket_size 128; aio threads; keepalive_requests 100000;
  limit_req_zone $binary_remote_addr zone=many:1m rate=100000r/s;
  server {{
    listen 127.0.0.1:{port}; root {dir}/files; dav_methods PUT DELETE; autoindex on;
    location /packed/ {{ alias {dir}/files/; gzip on; gzip_types text/plain; gzip_comp_level 6; gzip_min_length 10; }}
    location /kept/ {{ proxy_cache kept; proxy_cache_valid 200 1h; proxy_pass http://127.0.0.1:{back}/; }}
    location /through/ {{ proxy_buffers 4 4k; limit_req zone=many burst=1000 nodelay; proxy_pass http://127.0.0.1:{back}/; }}
    location ~ ^/say/([a-z]+)/(\\d+)$ {{ return 200 "$1 and $2 of $args\\n"; }}
    location /edited/ {{ alias {dir}/files/; sub_filter 77 seven; sub_filter_once off; }}
    location /listing/ {{ alias {dir}/files/; autoindex_format json; }}
  }}
  server {{ listen 127.0.0.1:{back}; root {dir}/files; }}
}}
"""


class Nginx(Case):
    """nginx: files, ranges, compression, a proxy with a cache, uploads and a reload under load; ab counts, and each answer is checked."""

    name = "nginx"
    medium = 6
    least = 2000
    serial = True
    packages = {"nginx": "nginx-light", "ab": "apache2-utils"}

    def groups(self, quick):
        return ["answers", "answers to packed", "ab", "answers while it reloads", "uploads", "answers at the end"]

    def start(self, side):
        files = side.folder("files")
        chance = random.Random(23)
        for number in range(FILES):
            (files / f"{number}.txt").write_text("".join(f"{chance.randrange(10 ** 6)}\n" for _ in range(number * number // 20)))
            os.utime(files / f"{number}.txt", (0, 0))
        files.chmod(0o777)
        side.port, back = free_port(), free_port()
        user = "root" if os.geteuid() == 0 else "nobody"
        (side.dir / "nginx.conf").write_text(CONFIG.format(dir=side.dir, port=side.port, back=back, user=user))
        side.server = side.popen(["nginx", "-p", side.dir, "-e", side.dir / "error.log", "-c", side.dir / "nginx.conf"])
        if not answers(side.port, side.server):
            raise RuntimeError("nginx does not listen")

    def stop(self, side):
        if getattr(side, "server", None):
            side.end(side.server, 20, ask=signal.SIGQUIT)

    @staticmethod
    def requests(places):
        return [(f"{place}{n}", "GET", f"/{place}{n}.txt", None) for place in places for n in range(FILES)]

    def run(self, side, group):
        if group == "ab":
            return self.bench(side)
        if group == "uploads":
            return self.uploads(side)
        if group == "answers to packed":
            return asked_by_many(side.port, self.requests(["packed/", "edited/"]), headers={"Accept-Encoding": "gzip"})
        if group == "answers while it reloads":
            side.server.send_signal(signal.SIGHUP)
            # Each connection has one request, because a worker that is told to end closes idle connections.
            return {name: asked(side.port, [(name, method, path, body)])[name]
                    for name, method, path, body in self.requests(["through/"])}
        words = [(f"say {n}", "GET", f"/say/word/{n}?x={n * n}", None) for n in range(200)]
        return asked_by_many(side.port, [*self.requests(["", "kept/", "kept/", "through/", "edited/"]), *words])

    @staticmethod
    def bench(side):
        found = {}
        for place, more in (("90.txt", []), ("packed/200.txt", ["-H", "Accept-Encoding: gzip"]), ("kept/120.txt", []), ("through/60.txt", [])):
            done = side.run(["ab", "-q", "-k", "-n", "4000", "-c", "16", *more, f"http://127.0.0.1:{side.port}/{place}"], timeout=180)
            for what in ("Complete requests", "Failed requests", "HTML transferred"):
                said = re.search(rf"^{what}: +(\d+)", done.out, re.MULTILINE)
                found[f"{place}: {what}"] = said[1] if said else "fail"
            found[f"{place}: end"] = done.outcome
        return found

    @staticmethod
    def uploads(side):
        chance = random.Random(29)
        bodies = {n: chance.randbytes(n * n * 40) for n in range(1, 120)}
        put = [(f"put {n}", "PUT", f"/up{n}", body) for n, body in bodies.items()]
        got = [(f"get {n}", "GET", f"/up{n}", None) for n in bodies]
        gone = [(f"delete {n}", "DELETE", f"/up{n}", None) for n in bodies]
        found = {}
        for requests in (put, got, gone):
            found.update(asked_by_many(side.port, requests))
        return found
