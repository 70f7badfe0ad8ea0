"""Programs that run a script of this project. Every result of the script is the same each time."""

import shutil

from harness.case import WORKLOADS, Case
from harness.outcomes import values


class Script(Case):
    """Runs the command with the script and compares the name=value lines that it prints."""

    command = ()
    script = ""

    def prepare(self, kit):
        self.program = shutil.which(self.command[0])

    def run(self, side, group):
        done = side.run([self.program, *self.command[1:], WORKLOADS / self.script], cwd=side.fresh("work"), timeout=240)
        return values(done)


class Node(Script):
    """Node: worker threads with zlib, crypto and buffers that move between them."""

    name = "node"
    least = 13
    packages = {"node": "nodejs"}
    command, script = ("node",), "workers.js"


class Lua(Script):
    """Lua: tables, strings, coroutines and the collector."""

    name = "lua"
    least = 9
    packages = {"lua5.4": "lua5.4"}
    command, script = ("lua5.4",), "tables.lua"
