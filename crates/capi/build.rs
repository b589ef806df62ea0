//! What the compiler must know about the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Never set: the header makes `#if !defined(PUNCTUAL_NO_STACK_NAMES)` of it.
    println!("cargo::rustc-check-cfg=cfg(punctual_no_stack_names)");
}
