//! What the linker must know about the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The C library calls back when a thread ends or the process forks, so the code stays.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Found now rather than at the first call on a real-time thread.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,now");
}
