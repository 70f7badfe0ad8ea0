"""tmux: a server with windows, panes, history, buffers and formats; what each pane shows is a check."""

import time

from harness.case import Case
from harness.side import digest

WINDOWS = 30
LAYOUTS = ("even-horizontal", "even-vertical", "main-horizontal", "main-vertical", "tiled")
FORMATS = ("#{session_windows} #{window_name} #{pane_width}x#{pane_height}", "#{W:#{window_index}=#{window_name} }", "#{=20:window_layout}",
           "#{?window_active,yes,no} #{s/o/0/:window_name} #{history_size}", "#{n:window_name} #{e|*|:7,#{window_index}} #{m:*1*,#{window_name}}")


class Tmux(Case):
    """tmux: a server with windows, panes, history, buffers and formats; what each pane shows is a check."""

    name = "tmux"
    medium = 4
    serial = True
    least = 400
    packages = {"tmux": "tmux"}

    def groups(self, quick):
        return ["windows", "panes", "resized", "history and search", "buffers", "control mode", "keys and options", "end"]

    def tmux(self, side, *words, stdin=None):
        return side.run(["tmux", "-S", side.dir / "socket", "-f", "/dev/null", *words], timeout=60, stdin=stdin, env={"SHELL": "/bin/sh", "PS1": "$ "})

    def start(self, side):
        side.server = side.popen(["tmux", "-S", side.dir / "socket", "-f", "/dev/null", "-D"], env={"SHELL": "/bin/sh"})
        for _ in range(100):
            if (side.dir / "socket").exists():
                break
            time.sleep(0.1)
        self.tmux(side, "start-server", ";", "set", "-g", "default-command", "cat", ";", "set", "-g", "history-limit", "5000", ";", "set", "-g",
                  "remain-on-exit", "on", ";", "set", "-g", "status-interval", "0", ";", "set", "-g", "automatic-rename", "off")

    def stop(self, side):
        if getattr(side, "server", None):
            self.tmux(side, "kill-server")
            side.end(side.server, 20)

    def shown(self, side, pane, *more):
        """Returns the contents of a pane after its last line has appeared."""
        for _ in range(200):
            done = self.tmux(side, "capture-pane", "-p", "-e", *more, "-t", pane)
            if "the end" in done.out or done.outcome != "exit 0":
                break
            time.sleep(0.1)
        return f"{done.outcome} {digest(done.out)}"

    def run(self, side, group):
        return {"windows": self.windows, "panes": self.panes, "resized": self.resized, "history and search": self.history, "buffers": self.buffers,
                "control mode": self.control, "keys and options": self.keys, "end": self.end}[group](side)

    def windows(self, side):
        found = {}
        self.tmux(side, "new-session", "-d", "-s", "main", "-x", "120", "-y", "40", "-n", "first", "echo the end; exec cat")
        for n in range(WINDOWS):
            line = (f"awk 'BEGIN {{ for (i = 1; i <= {n * 40 + 50}; i++) {{ w = sprintf(\"%*s\", i % 30 + 1, \"\"); gsub(/ /, \"word\", w);"
                    f" printf \"\\033[3%dm%d \\033[4%dm%s\\033[0m\\n\", i % 8, i, i % 5, w }} }}'; printf '\\303\\251 the end'; exec cat")
            found[f"new {n}"] = self.tmux(side, "new-window", "-d", "-t", f"main:{n + 1}", "-n", f"window{n}", line).outcome
        for n in range(WINDOWS):
            found[f"shows {n}"] = self.shown(side, f"main:{n + 1}")
        for form in FORMATS:
            found.update((f"{form} {n}", digest(self.tmux(side, "display-message", "-p", "-t", f"main:{n + 1}", form).out)) for n in range(0, WINDOWS, 4))
        return found

    def panes(self, side):
        found = {}
        for n in range(8):
            for part in range(4):
                done = self.tmux(side, "split-window", "-d", "-h" if part % 2 else "-v", "-t", f"main:{n + 1}", "-l", "40%",
                                 f"seq {n * 10} {n * 10 + 99}; echo the end; exec cat")
                found[f"split {n} {part}"] = done.outcome
                self.tmux(side, "select-layout", "-t", f"main:{n + 1}", "tiled")
            found[f"layout {n}"] = self.tmux(side, "select-layout", "-t", f"main:{n + 1}", LAYOUTS[n % 5]).outcome
            found.update((f"pane {n} {part}", self.shown(side, f"main:{n + 1}.{part}")) for part in range(1, 5))
            found[f"geometry {n}"] = self.tmux(side, "list-panes", "-t", f"main:{n + 1}", "-F", "#{pane_index} #{pane_width}x#{pane_height}").out
        return found

    def resized(self, side):
        found = {}
        for size in ((80, 24), (200, 60), (40, 12), (120, 40)):
            self.tmux(side, "resize-window", "-t", "main:20", "-x", size[0], "-y", size[1])
            found[f"{size}"] = digest(self.tmux(side, "capture-pane", "-p", "-S", "-", "-t", "main:20").out)
        return found

    def history(self, side):
        found = {}
        for n in range(0, WINDOWS, 3):
            pane = f"main:{n + 1}"
            found[f"all {n}"] = digest(self.tmux(side, "capture-pane", "-p", "-e", "-J", "-S", "-", "-t", pane).out)
            self.tmux(side, "copy-mode", "-t", pane)
            self.tmux(side, "send-keys", "-t", pane, "-X", "search-backward", "wordword")
            found[f"search {n}"] = self.tmux(side, "display-message", "-p", "-t", pane, "#{copy_cursor_y} #{copy_cursor_x} #{scroll_position} #{copy_cursor_line}").out
            self.tmux(side, "send-keys", "-t", pane, "-X", "cancel")
            self.tmux(side, "clear-history", "-t", pane)
        return found

    def buffers(self, side):
        found = {}
        for n in range(25):
            text = "".join(f"{n} {k * 7919 % 1009}\n" for k in range(n * n * 3))
            (side.dir / "text").write_text(text or "none\n")
            self.tmux(side, "load-buffer", "-b", f"b{n}", side.dir / "text")
            found[f"{n}"] = digest(self.tmux(side, "show-buffer", "-b", f"b{n}").out)
        found["list"] = digest(self.tmux(side, "list-buffers", "-F", "#{buffer_name} #{buffer_size} #{buffer_sample}").out)
        for n in range(0, 25, 4):
            found[f"delete {n}"] = self.tmux(side, "delete-buffer", "-b", f"b{n}").outcome
        return found

    def control(self, side):
        """Uses control mode, the protocol for terminals that have a user interface of their own. The text of each reply is a check."""
        lines = [f"display-message -p '#{{e|+|:{n},{n * 3}}}'" for n in range(60)] + ["list-keys -T prefix", "show-options -g", "list-commands"]
        done = self.tmux(side, "-C", "attach-session", "-t", "main", stdin="\n".join(lines) + "\n\n")
        said = [line for line in done.out.splitlines() if not line.startswith("%")]
        return {f"line {n}": digest(line) for n, line in enumerate(said)}

    def keys(self, side):
        found = {}
        for n in range(50):
            self.tmux(side, "bind-key", "-T", "mine", f"M-{chr(97 + n % 26)}" if n < 26 else f"C-M-{chr(97 + n % 26)}", "display-message", f"said {n}")
            self.tmux(side, "set-option", "-g", f"@mine{n}", "x" * n * 20)
        for word in (("list-keys", "-T", "mine"), ("list-keys",), ("show-options", "-g"), ("show-window-options", "-g"), ("list-commands",)):
            found.update((f"{' '.join(word)} {n}", digest(line)) for n, line in enumerate(self.tmux(side, *word).out.splitlines()))
        return found

    def end(self, side):
        killed = [self.tmux(side, "kill-window", "-t", f"main:{n + 1}").outcome for n in range(WINDOWS)]
        left = self.tmux(side, "list-windows", "-a", "-F", "#{window_name}").out.strip()
        self.tmux(side, "kill-server")
        done = side.end(side.server, 20)
        side.server = None
        return {"killed": f"{killed.count('exit 0')}", "left": left, "end": done.outcome}
