"""The three contract numbers. They are independent: raise only the one whose rule says so.

``BUNDLE_FORMAT``
    The bytes of a bundle: header, root, blocks, table, dictionaries, frames. Raise it when a reader of the old number
    would misread or reject a new file. Adding an operator, a kernel or a target never raises it.
    1 and 2 were never released: no reader of 3 reads them, and nothing writes them.
``RECIPE``
    What a recipe means: bytecode operations, kernel argument kinds, selection order. Raise it when
    an old runtime could not evaluate a new recipe, or would evaluate it to something else.
    1 had no shifts, no log2 and no computed float arguments; 2 had no attributes that are texts;
    3 had no arguments of one byte.
``NATIVE_ABI``
    The surface between ``aiter_prebuilt`` (Python) and its native extension. Raise it when a
    signature, a record or an error code of that surface changes.
    2 had no ``Outputs``, ``Plans`` and ``Operator.viewing``; the operators of 3 restated no refused call; 4 knew no own bundles.

A mismatch is an error that names both sides and the command that mends it; nobody guesses.
"""

from typing import Final

BUNDLE_FORMAT: Final = 3
RECIPE: Final = 4
NATIVE_ABI: Final = 5

#: Version of all distributions: the runtime and its bundle wheels are released together.
VERSION: Final = "0.1.0"

#: How the name of a bundle file ends.
SUFFIX: Final = ".apb"
#: Stands between the profile and the tree's name in the root and in the file name of an own bundle: ``ck-free.acme``.
TREE_MARK: Final = "."
#: How the name of the file with its golden calls ends, which lies beside it.
CALLS_SUFFIX: Final = ".calls"
