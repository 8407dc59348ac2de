"""Arrow columns from record batches and record batches from Arrow columns, in loops that Numba compiles."""
