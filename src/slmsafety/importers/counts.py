"""What an import did with every judgment that it read: in = out + rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slmsafety.importers.tables import Imported
from slmsafety.records.schema import LABELS


class Counts(NamedTuple):
    """The judgments of a source.

    Attributes
    ----------
    source : str
        Its path.
    read : int
        The judgments that it holds: rows, times the judges that are columns.
    labels : dict
        Those with a label, by label.
    statuses : dict
        Those without one, by status.
    rejected : dict
        Those that were left out, by reason. Today a row that cannot be read stops the import.
    """

    source: str
    read: int
    labels: Mapping[str, int]
    statuses: Mapping[str, int]
    rejected: Mapping[str, int]

    @property
    def out(self) -> int:
        """The judgments that are in the study's tables."""
        return sum(self.labels.values()) + sum(self.statuses.values())

    @property
    def line(self) -> str:
        """The counts as a line to print."""
        labelled = ", ".join(f"{count} {name}" for name, count in self.labels.items())
        without = ", ".join(f"{count} {name}" for name, count in self.statuses.items()) or "0"
        left_out = ", ".join(f"{count} {reason}" for reason, count in self.rejected.items()) or "0"
        return (
            f"import: {self.read} judgments read: {labelled}; without a label: {without}; rejected: {left_out}: "
            f"{self.source}"
        )


def count(sources: Sequence[Imported]) -> list[Counts]:
    """Return the counts of each source, as `rules.by_rules` gives it.

    Raises RuntimeError where a judgment that was read is neither out nor rejected, or is out twice.
    """
    found = []
    for source in sources:
        rows = source.judgments
        labelled = rows["label"].notna()
        labels = rows.loc[labelled, "label"].astype(int).map(LABELS).value_counts()
        statuses = rows.loc[~labelled, "status"].value_counts()
        counts = Counts(
            source.source,
            len(rows) if source.read is None else source.read,
            {name: int(labels.get(name, 0)) for name in LABELS.values()},
            {str(name): int(number) for name, number in statuses.items()},
            {},
        )
        if counts.read != counts.out + sum(counts.rejected.values()):
            raise RuntimeError(f"{source.source}: {counts.read} judgments read, {counts.out} out; please report this")
        found.append(counts)
    return found
