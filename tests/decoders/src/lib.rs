//! Short runs, on a stable compiler, of what `fuzz` runs for hours: the same functions, from the same seeds.
