"""Look up shared facts once for all bundles of a plan.

They are source trees and signatures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from aiter_prebuilt.contract.records import Tensor, TypeVariable
from build_tools.manifest import model
from build_tools.manifest.problems import Problems
from build_tools.plan.slots import Slots, assign_slots, tensor_records, type_variables
from build_tools.records import in_tree
from build_tools.tools.tree import Tree, exists, is_read, tree_of


@dataclass
class Once:
    """``root``: the repository."""

    root: Path
    problems: Problems
    _trees: dict[str, Tree] = field(default_factory=dict)
    _signatures: dict[str, tuple[model.Operator, Slots]] = field(default_factory=dict)
    _records: dict[tuple[Slots, str], tuple[tuple[Tensor, ...], tuple[TypeVariable, ...]]] = field(
        default_factory=dict
    )

    def _tree(self, name: str) -> Tree:
        key = name.partition(":")[0]
        if key not in self._trees:
            self._trees[key] = tree_of(name, self.root)
        return self._trees[key]

    def unpinned(self, name: str) -> bool:
        """Is it a file of a tree that is not pinned?

        Raises:
            FetchError, ToolchainError, ManifestError: see :func:`build_tools.tools.tree.tree_of`.
        """
        return in_tree(name) and not self._tree(name).pinned

    def reads(self, *names: str) -> bool:
        """Ask whether this build reads the trees of these files: not those of an edition that nobody asked for.

        Raises:
            ManifestError: the pins cannot be read. UsageError: see :func:`build_tools.tools.tree.is_read`.
        """
        return all(is_read(name, self.root) for name in names if in_tree(name))

    def exists(self, name: str) -> bool:
        """Is there such a file, in the repository or in a tree?

        Raises:
            FetchError, ToolchainError, ManifestError: as above.
        """
        return self._tree(name).has(name) if in_tree(name) else exists(name, self.root)

    def signature(self, spec: model.Operator) -> Slots:
        """Programs are kept by it, so that a target finds those of the one before."""
        if spec.name not in self._signatures:
            self._signatures[spec.name] = spec, assign_slots(spec, self.problems)
        of, slots = self._signatures[spec.name]
        return slots if of is spec else assign_slots(spec, self.problems)

    def records(self, slots: Slots, fp8: str) -> tuple[tuple[Tensor, ...], tuple[TypeVariable, ...]]:
        """Build the tensors and type variables of a signature.

        They are those on targets with this fp8.
        """
        key = slots, fp8
        if key not in self._records:
            self._records[key] = tensor_records(slots, fp8, self.problems), type_variables(slots, fp8)
        return self._records[key]
