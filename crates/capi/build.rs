//! What the linker must know about the shared library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Programs ask for the version of the interface, not for the file.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpunctual.so.0");
    // The C library calls back when a thread ends or the process forks, so the code stays,
    // even when a program closes the library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
