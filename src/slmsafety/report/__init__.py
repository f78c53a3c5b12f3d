"""What a study shows: figures, tables and numbers, each on disk with its sidecar. It draws what it is given."""
