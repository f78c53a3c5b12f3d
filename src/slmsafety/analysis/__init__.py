"""Pure statistics on arrays and frames: no files, no plotting, no parameters object."""
