//! The `overdue` command.
fn main() {}
