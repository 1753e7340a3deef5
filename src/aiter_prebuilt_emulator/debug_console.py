"""``aiter-prebuilt-emulator debug --console``: the debugger at a prompt, as a client of its own session."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from aiter_prebuilt_emulator.debug_protocol import Message, Messages
from aiter_prebuilt_emulator.debug_session import Session

HELP: Final = """break FILE:LINE | KERNEL[+OFFSET] | 0xADDRESS [if workgroup=1:0:0,wave=2]   delete: forget all of them
run        start the program           c | continue      Ctrl-C   stop
n | next   a line of the wave          s | step          into what is inlined    out       until it returns
ni | si    an instruction              bt                where the wave is       dis [N]   the next instructions
waves      those that run              wave N            look at another one
p EXPRESSION    v3[5], s[0:1], exec, lds[0x40:16], *s[4:5]:64, ... with ,x ,d ,u ,f or ,h behind
q | quit   end the program"""
_STEPS: Final = {
    "n": ("next", "line"), "next": ("next", "line"), "s": ("stepIn", "line"), "step": ("stepIn", "line"),
    "out": ("stepOut", "line"), "ni": ("next", "instruction"), "si": ("stepIn", "instruction"),
}  # fmt: skip


class _Terminal(Messages):
    """Takes the session's messages: answers for the prompt, events as text."""

    def __init__(self) -> None:
        super().__init__(BytesIO(), BytesIO())
        self.reply: Message = {}
        self.stopped: Message = {}
        self.stands = threading.Event()
        self.over = False

    def write(self, message: Message) -> None:
        if message["type"] == "response":
            self.reply = message
            return
        body = message["body"]
        if message["event"] == "stopped":
            self.stopped = body
            self.stands.set()
        elif message["event"] == "terminated":
            self.over = True
            self.stands.set()
        elif message["event"] == "exited":
            print(f"the program ended with {body['exitCode']}")
        elif message["event"] == "output":
            print(body["output"], end="")
        elif message["event"] == "breakpoint":
            one = body["breakpoint"]
            where = f", {one['source']['path']}:{one['line']}" if "line" in one else ""
            print(f"breakpoint {one['id']} lies in code that is launched{where}")


class Console:
    """A prompt for one program, which shares the terminal."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._terminal = _Terminal()
        self._session = Session(self._terminal, command, environment, own_command=False, output=False)
        self._asked: dict[str, list[dict[str, Any]]] = {}
        self._thread = 0
        self._runs = False

    def run(self) -> int:
        """Read commands until the program or the person is done."""
        self._session.start()
        with contextlib.suppress(ImportError):
            importlib.import_module("readline")  # input() has a history then
        print("help tells the commands; set breakpoints, then run")
        try:
            self._ask("launch")
            while not self._terminal.over:
                try:
                    line = input("(debug) ")
                except KeyboardInterrupt:
                    print()
                    continue
                if not self._do(line.strip()):
                    break
        except EOFError:
            pass
        finally:
            self._session.close()
        return 0

    def _ask(self, command: str, **arguments: object) -> dict[str, Any] | None:
        self._session.answer({"type": "request", "seq": 0, "command": command, "arguments": arguments})
        reply = self._terminal.reply
        if not reply["success"]:
            print(f"error: {reply['message']}")
            return None
        found: dict[str, Any] = reply["body"]
        return found

    def _do(self, line: str) -> bool:
        word, _, rest = line.partition(" ")
        if word in ("q", "quit"):
            return False
        if word == "run" or (word in ("c", "continue") and not self._runs):
            self._start()
        elif word in ("c", "continue"):
            self._go("continue", threadId=self._thread)
        elif word in _STEPS:
            command, granularity = _STEPS[word]
            self._go(command, threadId=self._thread, granularity=granularity)
        elif word == "break":
            self._break(rest)
        elif word == "delete":
            self._delete()
        elif word and not self._look(word, rest):
            print(
                HELP if word == "help" else f"error: found '{word}'; help tells the commands", file=sys.stderr
            )
        return True

    def _start(self) -> None:
        if self._runs:
            print("error: it runs already; c goes on")
            return
        self._runs = True
        self._go("configurationDone")

    def _go(self, command: str, **arguments: object) -> None:
        """Let it run until something stops it; Ctrl-C does."""
        self._terminal.stands.clear()
        if self._ask(command, **arguments) is None:
            return
        while not self._terminal.stands.is_set():
            try:
                self._terminal.stands.wait()
            except KeyboardInterrupt:
                print()
                self._interrupt()
        if self._terminal.over:
            return
        stopped = self._terminal.stopped
        self._thread = stopped["threadId"]
        print(f"{stopped['reason']}: {stopped.get('text') or self._name(self._thread)}")
        self._where(1)

    def _interrupt(self) -> None:
        """Stop at the next instruction of a kernel; when none runs the program is interrupted, as Ctrl-C would."""
        if self._ask("pause") is None or not self._terminal.stands.wait(1):
            print("no kernel runs: interrupting the program")
            self._session.interrupt()

    def _name(self, thread: int) -> str:
        threads = (self._ask("threads") or {"threads": []})["threads"]
        return next((one["name"] for one in threads if one["id"] == thread), "")

    def _where(self, most: int) -> None:
        found = self._ask("stackTrace", threadId=self._thread)
        for frame in (found or {"stackFrames": []})["stackFrames"][:most]:
            source = f"{frame['source']['path']}:{frame['line']} " if "source" in frame else ""
            print(f"  {source}{frame['name']}")

    def _break(self, text: str) -> None:
        where, _, condition = text.partition(" if ")
        where, extra = where.strip(), {"condition": condition.strip()} if condition else {}
        path, _, line = where.rpartition(":")
        if where.startswith("0x"):
            self._set("setInstructionBreakpoints", "", {"instructionReference": where} | extra)
        elif path and line.isdigit():
            self._set("setBreakpoints", path, {"line": int(line)} | extra)
        elif where:
            self._set("setFunctionBreakpoints", "", {"name": where} | extra)
        else:
            print("error: no place; write break x.hip:12, break kernel+0x40 or break 0x7f00")

    def _set(self, command: str, path: str, one: dict[str, Any]) -> None:
        key = f"{command} {path}"
        asked = [*self._asked.get(key, []), one]
        found = self._ask(command, breakpoints=asked, **({"source": {"path": path}} if path else {}))
        if found is None:
            return
        new = found["breakpoints"][-1]
        if new.get("reason") == "failed":
            print(f"error: {new['message']}")
        else:
            self._asked[key] = asked

    def _delete(self) -> None:
        for key in self._asked:
            command, _, path = key.partition(" ")
            self._ask(command, breakpoints=[], **({"source": {"path": path}} if path else {}))
        self._asked = {}

    def _look(self, word: str, rest: str) -> bool:
        if word == "bt":
            self._where(99)
        elif word == "waves":
            for one in (self._ask("threads") or {"threads": []})["threads"]:
                print(f"{'*' if one['id'] == self._thread else ' '} {one['id']}  {one['name']}")
        elif word == "wave" and rest.isdigit():
            self._thread = int(rest)
            self._where(1)
        elif word in ("p", "print"):
            self._ask("stackTrace", threadId=self._thread)
            if found := self._ask("evaluate", expression=rest):
                print(found["result"])
                if found["variablesReference"]:
                    rows = (
                        self._ask("variables", variablesReference=found["variablesReference"])
                        or {"variables": []}
                    )["variables"]
                    print(*(f"{row['name']:>5} {row['value']}" for row in rows), sep="\n")
        elif word == "dis":
            self._disassemble(int(rest) if rest.strip().isdigit() else 8)
        else:
            return False
        return True

    def _disassemble(self, count: int) -> None:
        found = self._ask("stackTrace", threadId=self._thread)
        if not found:
            return
        at = found["stackFrames"][0]["instructionPointerReference"]
        rows = self._ask("disassemble", memoryReference=at, instructionCount=count)
        for row in (rows or {"instructions": []})["instructions"]:
            print(f"  {row.get('symbol', '')}  {row['instruction']}")
