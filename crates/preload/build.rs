//! Linker options of the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The C library calls it when a thread ends or the process forks, so the code must stay
    // loaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Symbols are bound at load time rather than at the first call on a real-time thread.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,now");
}
