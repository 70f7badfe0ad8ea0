"""Chromium and Firefox without a display: a page of work whose results they send back, and a picture of it."""

import re
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness.case import WORKLOADS, Case
from harness.serving import HERE
from harness.side import digest

WAIT = 300
SAID = re.compile(r"^@@ (\w+)=(\S+)$", re.MULTILINE)
PREFERENCES = """
user_pref("browser.shell.checkDefaultBrowser", false); user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.update.enabled", false); user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("network.captive-portal-service.enabled", false); user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,"); user_pref("browser.safebrowsing.update.enabled", false);
user_pref("toolkit.telemetry.enabled", false); user_pref("extensions.update.enabled", false);
user_pref("privacy.resistFingerprinting", false); user_pref("privacy.fingerprintingProtection", false);
user_pref("network.proxy.type", 0); user_pref("security.sandbox.content.level", 0);
"""


class Page(BaseHTTPRequestHandler):
    """Serves the page, and stores the results that it sends."""

    def do_GET(self):
        text = (WORKLOADS / "browser.html").read_bytes() if self.path.startswith("/page") else b""
        self.send_response(200 if text else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        self.server.said = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(204)
        self.end_headers()
        self.server.told.set()

    def log_message(self, *_):
        pass


class Browser(Case):
    """Opens the page, waits for its results, and takes a picture of it."""

    medium = 0
    own_malloc = True
    least = 250

    def groups(self, quick):
        return ["first start", "second start", "picture"]

    def command(self, side, address):
        raise NotImplementedError

    def run(self, side, group):
        with ThreadingHTTPServer((HERE, 0), Page) as server:
            server.told, server.said = threading.Event(), ""
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://{HERE}:{server.server_port}/page"
            try:
                return self.picture(side, address) if group == "picture" else self.told(side, server, address)
            finally:
                server.shutdown()

    def told(self, side, server, address):
        browser = side.popen(self.command(side, address), env=self.environment(side))
        for _ in range(WAIT):
            if server.told.wait(1) or browser.poll() is not None:
                break
        alive = browser.poll() is None
        done = side.end(browser, 60, ask=signal.SIGTERM)
        return {"alive": "ok" if alive else f"fail: {done.outcome}", **dict(SAID.findall(server.said))}

    @staticmethod
    def environment(side):
        return {"MOZ_HEADLESS": "1", "MOZ_CRASHREPORTER_DISABLE": "1", "XDG_RUNTIME_DIR": str(side.folder("run")), "NO_AT_BRIDGE": "1"}

    def picture(self, side, address):
        work = side.fresh("work")
        done = side.run(self.camera(side, work / "a.png", address + "?small"), cwd=work, env=self.environment(side), timeout=WAIT)
        made = work / "a.png"
        return {"end": done.outcome, "picture": digest(made.read_bytes()) if made.exists() else "fail"}


class Chromium(Browser):
    """Chromium without a display, with several processes and threads: a page of work, twice, and a picture."""

    name = "chromium"
    packages = {"chromium": "chromium"}

    def command(self, side, address):
        return [*self.plain(side), "--remote-debugging-port=0", address]  # this option keeps the browser running

    @staticmethod
    def plain(side):
        return ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                "--disable-component-update", "--disable-sync", f"--user-data-dir={side.dir}/profile"]

    def camera(self, side, path, address):
        return [*self.plain(side), f"--screenshot={path}", "--window-size=400,300", address]


class Firefox(Browser):
    """Firefox without a display, with several processes and threads: a page of work, twice, and a picture."""

    name = "firefox"
    packages = {"firefox-esr": "firefox-esr"}

    def start(self, side):
        (side.folder("profile") / "user.js").write_text(PREFERENCES)

    def command(self, side, address):
        return ["firefox-esr", "--headless", "--no-remote", "--profile", side.dir / "profile", address]

    def camera(self, side, path, address):
        return [*self.command(side, "--window-size=400,300"), "--screenshot", path, address]
