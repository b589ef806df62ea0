//! Compiler options of the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Never set: cbindgen turns it into `#if !defined(PUNCTUAL_NO_STACK_NAMES)` in the header.
    println!("cargo::rustc-check-cfg=cfg(punctual_no_stack_names)");
}
