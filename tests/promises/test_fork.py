"""A fork before the driver is opened is a fresh start; after it, the child gets ForkError, and the parent goes on."""

from __future__ import annotations

from pathlib import Path

from native.conftest import host_compiler

from promises import programs

EIGHTHS = [0.125] * 16


def test_a_child_of_an_unused_process_works(extension_path: Path) -> None:
    first, second, parent = programs.run(
        """
        dispatch.operator("softmax")  # the operator's object alone opens nothing
        say(in_child(softmax))
        say(in_child(softmax))
        say(attempt(softmax))
        """
    )
    assert first == second == [0, "ran", EIGHTHS] and parent == ["ran", EIGHTHS]


def test_a_child_of_a_process_that_used_the_gpu_is_told_what_to_do(extension_path: Path) -> None:
    before, called, other, loaded, asked, grandchild, after = programs.run(
        """
        import aiter_prebuilt
        say(softmax())
        out, source = DeviceArray("f32", (2, 8)), DeviceArray("f32", (2, 8))
        say(in_child(lambda: dispatch.operator("softmax")(source.raw, out.raw, stream=0)))
        say(in_child(lambda: dispatch.operator("rms_norm")(source.raw, out.raw, stream=0)))
        say(in_child(lambda: aiter_prebuilt.preload("rms_norm", vendor="amd")))
        say(in_child(lambda: device.native.module().device("amd", 0)))
        say(in_child(lambda: in_child(lambda: dispatch.operator("softmax")(source.raw, out.raw, stream=0))))
        say(softmax())
        """
    )
    assert before == after == EIGHTHS
    for status, kind, text, _ in (called, other, loaded, asked, grandchild[2]):
        assert status == 0 and kind == "ForkError"
        assert "is a fork of one that had opened the GPU driver" in text and "'spawn'" in text


def test_a_child_that_was_forked_while_another_thread_opened_the_driver(
    extension_path: Path, tmp_path: Path
) -> None:
    """Neither a hang nor half of a driver: the lock that the other thread held is nobody's in the child."""
    from subprocess import run

    (tmp_path / "slow.c").write_text(
        "#include <unistd.h>\n__attribute__((constructor)) static void wait_a_while(void) { usleep(600000); }\n"
    )
    library = tmp_path / "libslow.so"
    run([*host_compiler("C"), "-shared", "-fPIC", str(tmp_path / "slow.c"), "-o", str(library)], check=True)
    (answer,) = programs.lines(
        """
        import signal, threading, time
        native = device.native.module()
        thread = threading.Thread(target=lambda: attempt(lambda: native.open_driver("amd", None)))
        thread.start()
        time.sleep(0.2)  # it sleeps in the library's constructor now
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        def in_time():
            signal.alarm(20)
            return native.open_driver("amd", None)
        say(in_child(in_time))
        thread.join()
        """,
        {"AITER_PREBUILT_HIP": str(library)},
    )
    assert answer[:2] == [0, "ForkError"], answer
