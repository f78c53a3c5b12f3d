"""The entries of a study's judges: one file a kind, told apart in `entry`."""
