//! What a developer runs, and CI too.
fn main() {}
