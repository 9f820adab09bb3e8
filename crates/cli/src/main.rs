//! The `wayfs` program.
fn main() {}
