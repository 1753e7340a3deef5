"""``aiter-prebuilt-emulator debug``: what an editor sees and how waves go on, in sessions of the Debug Adapter Protocol."""

from __future__ import annotations

import base64
import itertools
import struct
from pathlib import Path

import pytest
from support.dap_client import Adapter, DapError, gone
from support.debugged import WITH, finish, image, place, source, words

__all__ = ["image"]


def test_a_line_is_hit_by_each_wave_of_each_workgroup(image: Path) -> None:
    with Adapter(words(image)) as adapter:
        client = adapter.begin()
        (asked,) = client.ask("setBreakpoints", **source(211))["breakpoints"]
        assert asked["verified"] is False and "launched" in asked["message"]
        client.ask("configurationDone")
        placed = client.event("breakpoint")["breakpoint"]
        assert placed["id"] == asked["id"] and placed["verified"] is True and placed["line"] == 211
        seen = set()
        for _ in range(6):
            thread = client.stopped("breakpoint")
            assert client.timeline[-1]["body"]["hitBreakpointIds"] == [asked["id"]]
            frame = client.top(thread)
            assert frame["line"] == 211 and frame["source"]["path"].endswith("/debugged.hip")
            assert frame["name"].startswith("kernel (code+0x")
            seen.add(place(client, thread))
            client.ask("continue", threadId=thread)
        assert seen == {(group, wave) for group in range(3) for wave in range(2)}
        assert client.event("exited")["exitCode"] == 0
        assert "status 0" in finish(adapter)


def test_registers_lds_and_memory(image: Path) -> None:
    with Adapter(words(image), AITER_PREBUILT_EMULATOR_THREADS="1") as adapter:
        client = adapter.begin()
        client.ask("setBreakpoints", **source(211, "workgroup=1:0:0,wave=1"))
        client.ask("configurationDone")
        thread = client.stopped("breakpoint")
        assert place(client, thread) == (1, 1)
        assert adapter.process.stdout
        address = int(adapter.process.stdout.readline().split()[1], 16)
        # LDS: every work item's, written before the barrier.
        shared = [item * 3 + WITH for item in range(128)]
        assert client.value("lds[0:512]", thread) == " ".join(f"0x{word:08x}" for word in shared)
        assert client.value("lds[0x10],u", thread) == str(shared[4])
        scopes = {
            one["name"]: one for one in client.ask("scopes", frameId=client.top(thread)["id"])["scopes"]
        }
        rows = client.ask("variables", variablesReference=scopes["LDS"]["variablesReference"])["variables"]
        assert rows[0]["name"] == "lds[0x0:64]" and rows[0]["value"].split()[1] == f"0x{shared[1]:08x}"
        memory = client.ask("readMemory", memoryReference=rows[0]["memoryReference"], offset=64, count=16)
        assert struct.unpack("<4I", base64.b64decode(memory["data"])) == tuple(shared[16:20])
        # The device's memory, checked.
        memory = client.ask("readMemory", memoryReference=hex(address), offset=8, count=4 * 3 * 128)
        data = base64.b64decode(memory["data"])
        assert memory["unreadableBytes"] == 8 and struct.unpack("<2I", data[4 * 298 : 4 * 300]) == (300, 301)
        with pytest.raises(DapError, match="no allocation"):
            client.ask("readMemory", memoryReference="0x1000", count=4)
        assert client.value(f"*{address + 4 * 200:#x}:8,u", thread) == "200 201"
        # Registers: one of them is the result, which is not stored yet.
        result = [(128 + item) * 2654435761 % 2**32 ^ shared[item] for item in range(64, 128)]
        vectors = client.ask(
            "variables", variablesReference=scopes["Vector registers"]["variablesReference"]
        )["variables"]
        lanes = {
            one["name"]: [
                int(lane["value"], 16)
                for lane in client.ask(
                    "variables", variablesReference=one["variablesReference"], format={"hex": True}
                )["variables"]
            ]
            for one in vectors
        }
        (name,) = [name for name, values in lanes.items() if values == result]
        assert client.value(f"{name}[5],u", thread) == str(result[5])
        special = client.ask("variables", variablesReference=scopes["Special"]["variablesReference"])[
            "variables"
        ]
        values = {one["name"]: one["value"] for one in special}
        assert values["exec"] == "0xffffffffffffffff" and "code+0x" in values["pc"]
        pair = [client.value(f"s{i},u", thread) for i in (0, 1)]
        assert int(client.value("s[0:1],u", thread)) == int(pair[0]) + (int(pair[1]) << 32)
        for wrong in ("v300", "v3[64]", "x", "lds[0x100000:4]", "s3[1]", "v1,z"):
            with pytest.raises(DapError):
                client.value(wrong, thread)
        client.ask("continue", threadId=thread)
        finish(adapter)


def test_steps(image: Path) -> None:
    with Adapter(words(image, groups=1)) as adapter:
        client = adapter.begin()
        client.ask("setFunctionBreakpoints", breakpoints=[{"name": "kernel"}])
        client.ask("configurationDone")
        thread = client.stopped("function breakpoint")
        where = place(client, thread)
        # By instruction: each place is the next one of the disassembly.
        at = client.top(thread)["instructionPointerReference"]
        listing = client.ask("disassemble", memoryReference=at, instructionOffset=-1, instructionCount=6)[
            "instructions"
        ]
        assert [row["address"] for row in listing].index(at) == 1 and listing[2]["instruction"] != listing[1][
            "instruction"
        ]
        for row in listing[2:5]:
            client.ask("next", threadId=thread, granularity="instruction")
            assert client.stopped("step") == thread
            assert client.top(thread)["instructionPointerReference"] == row["address"]
        client.ask("setFunctionBreakpoints", breakpoints=[])
        # By line: of this wave only, none of them twice in a row, and what is inlined there is one step.
        stacks: list[tuple[tuple[str, int], ...]] = []
        while not stacks or stacks[-1] != (("kernel", 211),):
            client.ask("next", threadId=thread)
            assert client.stopped("step") == thread and place(client, thread) == where
            stack = client.ask("stackTrace", threadId=thread)["stackFrames"]
            stacks.append(tuple((one["name"].split()[0], one["line"]) for one in stack))
            assert len(stacks) < 40, stacks
        assert all(one != other for one, other in itertools.pairwise(stacks)), stacks
        assert {(("kernel", 208),), (("kernel", 209),)} <= set(stacks), stacks
        client.ask("continue", threadId=thread)
        finish(adapter)


def test_a_step_goes_before_the_breakpoints_of_others_and_loses_none(image: Path) -> None:
    with Adapter(words(image, groups=1), AITER_PREBUILT_EMULATOR_CHECKS="all") as adapter:
        client = adapter.begin()
        client.ask("setBreakpoints", **source(209))
        client.ask("configurationDone")
        thread = client.stopped("breakpoint")
        (other,) = {0, 1} - {place(client, thread)[1]}
        for _ in range(2):
            client.ask("stepIn", threadId=thread, granularity="instruction")
            assert client.stopped("step") == thread
        client.ask("continue", threadId=thread)
        assert place(client, client.stopped("breakpoint")) == (0, other)
        client.ask("continue", threadId=thread)
        assert "status 0" in finish(adapter)


def test_a_step_that_needs_the_others_ends_at_their_breakpoint(image: Path) -> None:
    """A barrier lets the wave that is stepped through only when the one that stands at the breakpoint has come, too."""
    with Adapter(words(image, groups=1)) as adapter:
        client = adapter.begin()
        client.ask("setBreakpoints", **source(207))
        client.ask("configurationDone")
        thread = client.stopped("breakpoint")
        (other,) = {0, 1} - {place(client, thread)[1]}
        for _ in range(20):
            client.ask("next", threadId=thread)
            body = client.event("stopped")
            if body["threadId"] != thread:
                break
            assert body["reason"] == "step"
        assert body["reason"] == "breakpoint" and place(client, body["threadId"]) == (0, other)
        names = {one["id"]: one["name"] for one in client.ask("threads")["threads"]}
        assert names[thread].endswith("at a barrier")
        client.ask("continue", threadId=thread)
        assert "status 0" in finish(adapter)


def test_step_into_and_out_of_what_is_inlined(image: Path) -> None:
    with Adapter(words(image, groups=1)) as adapter:
        client = adapter.begin()
        client.ask("setBreakpoints", **source(201, "wave=0"))
        client.ask("configurationDone")
        thread = client.stopped("breakpoint")
        stack = client.ask("stackTrace", threadId=thread)["stackFrames"]
        assert [(one["name"].split()[0], one["line"]) for one in stack] == [("mixed", 201), ("kernel", 210)]
        client.ask("stepIn", threadId=thread)
        assert client.stopped("step") == thread
        assert client.top(thread)["line"] != 201
        client.ask("setBreakpoints", **source(201, "wave=1"))
        client.ask("continue", threadId=thread)
        other = client.stopped("breakpoint")
        assert other != thread
        client.ask("stepOut", threadId=other)
        assert client.stopped("step") == other
        stack = client.ask("stackTrace", threadId=other)["stackFrames"]
        assert len(stack) == 1 and stack[0]["name"].startswith("kernel ")
        client.ask("continue", threadId=other)
        finish(adapter)


def test_a_fault_stops_with_its_state(image: Path) -> None:
    with Adapter(words(image, "beyond", groups=1, number=1 << 24)) as adapter:
        client = adapter.begin()
        client.ask("setExceptionBreakpoints", filters=["fault"])
        client.ask("configurationDone")
        body = client.event("stopped")
        assert body["reason"] == "exception" and "illegal address at code+0x" in body["text"]
        frame = client.top(body["threadId"])
        assert frame["line"] == 215 and "store_dword" in frame["name"]
        assert client.value("exec", body["threadId"]) == "0xffffffffffffffff"
        client.ask("continue", threadId=body["threadId"])
        assert "status 700" in finish(adapter)
    with Adapter(words(image, "beyond", groups=1, number=1 << 24)) as adapter:
        client = adapter.begin()
        client.ask("setExceptionBreakpoints", filters=[])
        client.ask("configurationDone")
        assert "status 700" in finish(adapter)
        assert not [m for m in client.timeline if m.get("event") == "stopped"]


def test_a_finding_of_a_check_stops_too(image: Path) -> None:
    with Adapter(words(image, "unwritten", groups=1), AITER_PREBUILT_EMULATOR_CHECKS="all") as adapter:
        client = adapter.begin()
        client.ask("setBreakpoints", **source(220))
        client.ask("configurationDone")
        while (body := client.event("stopped"))["reason"] == "breakpoint":
            client.ask("continue", threadId=body["threadId"])
        assert (
            body["reason"] == "exception"
            and "read of uninitialised LDS" in body["text"]
            and "debugged.hip:221" in body["text"]
        )
        assert client.top(body["threadId"])["line"] == 221
        client.ask("continue", threadId=body["threadId"])
        assert "status 719" in finish(adapter)


def test_addresses_entry_and_all_threads_stand(image: Path) -> None:
    with Adapter(words(image, groups=8), AITER_PREBUILT_EMULATOR_THREADS="4") as adapter:
        client = adapter.begin(stopOnEntry=True)
        client.ask("configurationDone")
        thread = client.stopped("entry")
        at = client.top(thread)["instructionPointerReference"]
        listing = client.ask("disassemble", memoryReference=at, instructionCount=400)["instructions"]
        barrier = next(row for row in listing if row["instruction"] == "s_barrier")
        store = next(row for row in listing if row["instruction"].startswith("global_store"))
        (one,) = client.ask(
            "setInstructionBreakpoints", breakpoints=[{"instructionReference": barrier["address"]}]
        )["breakpoints"]
        assert one["verified"] is True
        client.ask("continue", threadId=thread)
        thread = client.stopped("instruction breakpoint")
        assert client.top(thread)["instructionPointerReference"] == barrier["address"]
        client.ask("setInstructionBreakpoints", breakpoints=[{"instructionReference": store["address"]}])
        for stop in range(16):
            client.ask("continue", threadId=thread)
            thread = client.stopped("instruction breakpoint")
            assert client.top(thread)["instructionPointerReference"] == store["address"]
            if stop:
                continue
            # All stand: every wave shows the same when it is asked again. Both waves of the group are through the barrier.
            threads = [each["id"] for each in client.ask("threads")["threads"]]
            assert thread in threads and len(threads) > 1
            first = {each: client.top(each)["instructionPointerReference"] for each in threads}
            assert first == {each: client.top(each)["instructionPointerReference"] for each in threads}
        client.ask("continue", threadId=thread)
        assert "status 0" in finish(adapter)


def test_pause_and_an_answer_before_the_stop(image: Path) -> None:
    with Adapter(words(image, "endless", groups=2)) as adapter:
        client = adapter.begin()
        client.ask("configurationDone")
        process = client.event("process")["systemProcessId"]
        for _ in range(3):
            client.ask("pause", threadId=1)
            thread = client.stopped("pause")
            assert client.top(thread)["line"] in (223, 224)
            for _ in range(3):
                client.ask("stepIn", threadId=thread, granularity="instruction")
                client.stopped("step")
                names = [m.get("command") or m.get("event") for m in client.timeline[-2:]]
                assert names == ["stepIn", "stopped"]
            client.ask("continue", threadId=thread)
        with pytest.raises(DapError, match="pause first"):
            client.ask("stackTrace", threadId=thread)
        client.ask("disconnect")
        assert adapter.process.wait(30) == 0 and gone(process)
