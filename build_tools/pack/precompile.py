"""The compiles of ``wheels``, begun while ``build`` compiles the kernels. They need nothing of each other, and each leaves cores
idle that the other can use: a link that waits for zig's first C++ library, a bundle's compression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from build_tools.files.run import allow, kill_all
from build_tools.pack.emulator_wheel import compile_emulator
from build_tools.pack.runtime_wheel import compile_runtime_wheel

COMPILES: Final[tuple[Callable[[Path], object], ...]] = (compile_runtime_wheel, compile_emulator)


@contextmanager
def host_ahead(root: Path) -> Iterator[None]:
    """Compile the runtime and the emulator into ``build/host`` beside what is done meanwhile; waits for them at its end.

    Raises:
        ToolchainError, FetchError, WheelError: as those compiles. What failed inside comes first, and ends them.
    """
    with ThreadPoolExecutor(len(COMPILES)) as pool:
        made = [pool.submit(compile_, root) for compile_ in COMPILES]
        try:
            yield
            for compiled in made:
                compiled.result()
        except BaseException:
            kill_all()
            pool.shutdown(cancel_futures=True)
            allow()
            raise
