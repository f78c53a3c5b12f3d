"""The tables of a study: their schemas, the append-only store, and the manifest of a run."""
