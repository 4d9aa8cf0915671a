//! The `rc3` command.
fn main() {}
