"""A session of the Debug Adapter Protocol: waves are its threads, registers and LDS their variables.

Requests come one after the other, on the thread that calls :meth:`Session.serve`; what the emulator and the program say comes on
another one. ``_order`` keeps an answer to "go on" before the stop that follows it.
"""

from __future__ import annotations

import contextlib
import hmac
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from aiter_prebuilt_emulator.debug_link import Answer, DeviceError, Link
from aiter_prebuilt_emulator.debug_places import Place, Places
from aiter_prebuilt_emulator.debug_program import Program
from aiter_prebuilt_emulator.debug_protocol import CAPABILITIES, Message, Messages
from aiter_prebuilt_emulator.debug_scopes import HOST, Scopes, number_of, wave_of

#: Requests that are answered before the client has shown its token.
_BEFORE: Final = ("initialize", "launch", "attach", "disconnect")
#: Those that bring it.
_LAUNCHES: Final = ("launch", "attach")


class Session:
    """One client and one program. ``own_command``: may the client name the program that is run?

    ``token``: what the client's launch or attach request must have as its ``token`` before anything else is done; "" for none.
    ``admitted``: called once it had.
    """

    def __init__(
        self,
        messages: Messages,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        own_command: bool,
        output: bool,
        token: str = "",
        admitted: Callable[[], object] = lambda: None,
    ) -> None:
        self._messages, self._command, self._environment = messages, list(command), dict(environment)
        self._own_command, self._output = own_command, output
        self._events: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._order = threading.RLock()
        self._places = Places()
        self._link = Link(self._heard)
        self._scopes = Scopes(self._link.ask)
        self._program: Program | None = None
        self._folder: str | None = None
        self._entry = False
        self._faults = True
        self._over = self._keep = False
        self._token, self._admitted = token, admitted
        self._wanted = bool(token)

    def serve(self) -> None:
        """Answer requests until the client goes; then nothing that was started is left."""
        self.start()
        try:
            while not self._over and (request := self._messages.read()) is not None:
                if request.get("type") == "request":
                    self.answer(request)
        finally:
            self.close()

    def start(self) -> None:
        """Begin to pass on what the emulator and the program say."""
        threading.Thread(target=self._tell, daemon=True).start()

    def interrupt(self) -> None:
        """Ctrl-C for the program."""
        if self._program:
            self._program.interrupt()

    def close(self) -> None:
        """End the program and the socket; a program that the client has let go first goes on to its own end."""
        self._over = True
        try:
            if self._program and self._keep:
                self._link.close()
                self._program.wait()
        finally:
            if self._program:
                self._program.end()
            self._link.close()

    # ---- what the emulator and the program say

    def _heard(self, event: Answer) -> None:
        if event["event"] == "placed":
            self._places.placed[event["id"]] = event["line"]
        self._events.put(event)

    def _tell(self) -> None:
        while True:
            event = self._events.get()
            handler: Callable[[Answer], None] | None = getattr(self, f"_event_{event['event']}", None)
            if handler:
                with self._order, contextlib.suppress(DeviceError):
                    handler(event)

    def _event_hello(self, event: Answer) -> None:
        self._messages.event(
            "process",
            {"name": " ".join(self._command), "systemProcessId": event["process"], "startMethod": "launch"},
        )
        try:
            self._try("breakpoints", *self._places.fields())
            self._try("faults", int(self._faults))
            if self._entry:
                self._try("entry")
        finally:
            self._link.ask("go")  # the process waits for it

    def _try(self, *words: object) -> None:
        try:
            self._link.ask(*words)
        except (DeviceError, ValueError) as error:
            self._event_output({"category": "important", "text": f"the device refuses {words[0]}: {error}\n"})

    def _event_stopped(self, event: Answer) -> None:
        self._scopes.forget()
        body: Message = {"threadId": number_of(event["group"], event["wave"]), "allThreadsStopped": True}
        body["reason"] = event["reason"]
        if event["reason"] == "breakpoint":
            body |= {"reason": self._places.reason(event["ids"]), "hitBreakpointIds": event["ids"]}
        if event["reason"] == "exception":
            body |= {"text": event["text"], "description": event["text"]}
        self._messages.event("stopped", body)

    def _event_continued(self, event: Answer) -> None:
        del event
        self._messages.event("continued", {"threadId": HOST, "allThreadsContinued": True})

    def _event_placed(self, event: Answer) -> None:
        if one := self._places.find(event["id"]):
            self._messages.event(
                "breakpoint", {"reason": "changed", "breakpoint": self._places.described(one)}
            )

    def _event_other(self, event: Answer) -> None:
        del event
        text = "another process launches kernels; it is not debugged\n"
        self._event_output({"category": "console", "text": text})

    def _event_output(self, event: Answer) -> None:
        self._messages.event("output", {"category": event["category"], "output": event["text"]})

    def _event_exit(self, event: Answer) -> None:
        self._messages.event("exited", {"exitCode": event["code"]})
        self._messages.event("terminated")

    # ---- what the client asks

    def answer(self, request: Message) -> None:
        """Do what a request asks, and answer it."""
        command, arguments = str(request.get("command")), request.get("arguments") or {}
        handler: Callable[[Message], Message | None] | None = getattr(self, f"_on_{command}", None)
        reply: Message = {
            "type": "response",
            "request_seq": request.get("seq"),
            "command": command,
            "success": True,
        }
        with self._order:
            try:
                if self._token and command not in _BEFORE:
                    raise DeviceError(f"{command}: send launch or attach with the token first")
                if handler is None:
                    raise DeviceError(f"found the request {command}, which this adapter does not have")
                reply["body"] = handler(arguments) or {}
            except (DeviceError, OSError) as error:
                reply |= {
                    "success": False,
                    "message": str(error),
                    "body": {"error": {"id": 1, "format": str(error)}},
                }
            except (KeyError, TypeError, ValueError) as error:
                text = f"{command}: its arguments are not those of the protocol: {error!r}"
                reply |= {"success": False, "message": text, "body": {"error": {"id": 2, "format": text}}}
            self._messages.write(reply)
        # A client sets its breakpoints at this event: with a token, not before it was right.
        if command in (_LAUNCHES if self._wanted else ("initialize",)) and reply["success"]:
            self._messages.event("initialized")

    def _on_initialize(self, arguments: Message) -> Message:
        del arguments
        return CAPABILITIES

    def _check_token(self, arguments: Message) -> None:
        """Let the client in, or end the session: a wrong token is tried once for each connection."""
        if not self._token:
            return
        if not hmac.compare_digest(str(arguments.get("token", "")).encode(), self._token.encode()):
            self._over = True
            raise DeviceError(
                'the "token" of this request is not the one that the debugger printed when it began to wait'
            )
        self._token = ""
        self._admitted()

    def _on_launch(self, arguments: Message) -> None:
        self._check_token(arguments)
        given = arguments.get("command") or [arguments[key] for key in ("program",) if key in arguments]
        if given and not self._command:
            if not self._own_command:
                raise DeviceError(
                    "a client on a socket may not name the program; write: aiter-prebuilt-emulator debug --listen PORT -- COMMAND"
                )
            self._command = [str(word) for word in (*given, *(arguments.get("args") or []))]
            self._environment |= {str(key): str(value) for key, value in (arguments.get("env") or {}).items()}
            self._folder = arguments.get("cwd")
            self._scopes.folder = Path(self._folder or "")
        if not self._command:
            raise DeviceError(
                'no program: write aiter-prebuilt-emulator debug -- COMMAND, or "program" and "args" in the launch request'
            )
        self._entry = bool(arguments.get("stopOnEntry"))

    _on_attach = _on_launch

    def _on_configurationDone(self, arguments: Message) -> None:  # noqa: N802  # the protocol's name
        del arguments
        if self._program:
            return
        environment = self._environment | {"AITER_PREBUILT_EMULATOR_DEBUG": self._link.path}
        self._program = Program(
            self._command,
            environment,
            lambda code: self._events.put({"event": "exit", "code": code}),
            (lambda category, text: self._events.put({"event": "output", "category": category, "text": text}))
            if self._output
            else None,
            self._folder,
        )

    def _placed(self, places: Sequence[Place]) -> Message:
        if self._link.connected:
            self._link.ask("breakpoints", *self._places.fields())
        return {"breakpoints": [self._places.described(one) for one in places]}

    def _on_setBreakpoints(self, arguments: Message) -> Message:  # noqa: N802
        return self._placed(
            self._places.set_lines(str(arguments["source"]["path"]), arguments.get("breakpoints") or [])
        )

    def _on_setFunctionBreakpoints(self, arguments: Message) -> Message:  # noqa: N802
        return self._placed(self._places.set_kernels(arguments["breakpoints"]))

    def _on_setInstructionBreakpoints(self, arguments: Message) -> Message:  # noqa: N802
        return self._placed(self._places.set_addresses(arguments["breakpoints"]))

    def _on_setExceptionBreakpoints(self, arguments: Message) -> None:  # noqa: N802
        self._faults = "fault" in arguments["filters"]
        if self._link.connected:
            self._link.ask("faults", int(self._faults))

    def _on_threads(self, arguments: Message) -> Message:
        del arguments
        waves: list[Answer] = []
        with contextlib.suppress(DeviceError):
            waves = self._link.ask("waves")["waves"]
        threads = [
            {"id": number_of(one["group"], one["wave"]), "name": self._scopes.name(one)} for one in waves
        ]
        return {"threads": threads or [{"id": HOST, "name": "host (no wave stands still)"}]}

    def _on_stackTrace(self, arguments: Message) -> Message:  # noqa: N802
        return self._scopes.stack(*wave_of(arguments["threadId"]))

    def _on_scopes(self, arguments: Message) -> Message:
        return {"scopes": self._scopes.of_frame(arguments["frameId"])}

    def _on_variables(self, arguments: Message) -> Message:
        found = self._scopes.variables(
            arguments["variablesReference"], bool((arguments.get("format") or {}).get("hex"))
        )
        found = found[int(arguments.get("start") or 0) :]
        return {"variables": found[: int(arguments.get("count") or len(found))]}

    def _on_evaluate(self, arguments: Message) -> Message:
        return self._scopes.evaluate(arguments["expression"], arguments.get("frameId"))

    def _on_readMemory(self, arguments: Message) -> Message:  # noqa: N802
        return self._scopes.memory(
            arguments["memoryReference"], int(arguments.get("offset") or 0), int(arguments["count"])
        )

    def _on_disassemble(self, arguments: Message) -> Message:
        return self._scopes.disassemble(
            int(arguments["memoryReference"], 0) + int(arguments.get("offset") or 0),
            int(arguments.get("instructionOffset") or 0),
            int(arguments["instructionCount"]),
        )

    def _on_continue(self, arguments: Message) -> Message:
        del arguments
        self._link.ask("continue")
        return {"allThreadsContinued": True}

    def _step(self, arguments: Message, kind: str) -> None:
        by_instruction = arguments.get("granularity") == "instruction" and kind != "out"
        self._link.ask("step", *wave_of(arguments["threadId"]), "instruction" if by_instruction else kind)

    def _on_next(self, arguments: Message) -> None:
        self._step(arguments, "over")

    def _on_stepIn(self, arguments: Message) -> None:  # noqa: N802
        self._step(arguments, "in")

    def _on_stepOut(self, arguments: Message) -> None:  # noqa: N802
        self._step(arguments, "out")

    def _on_pause(self, arguments: Message) -> None:
        del arguments
        self._link.ask("pause")

    def _on_terminate(self, arguments: Message) -> None:
        del arguments
        if self._program:
            threading.Thread(target=self._program.end, daemon=True).start()

    def _on_disconnect(self, arguments: Message) -> None:
        self._keep = arguments.get("terminateDebuggee") is False
        self._over = True
