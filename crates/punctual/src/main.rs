//! The thin entry point of the tool.
fn main() {}
