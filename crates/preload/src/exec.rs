//! Programs that the program starts. One of another C library runs without this library: a line says so.

use std::ffi::{CStr, c_char, c_int};

use crate::{real, report};

/// # Safety
/// That of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    if is_of_musl(path) {
        // SAFETY: the kernel has read it: it is a C string.
        let name = unsafe { CStr::from_ptr(path) }.to_str().unwrap_or("?");
        report::line(format_args!(
            "{name} is linked against musl: it runs without prefaulted stacks and locked memory"
        ));
    }
    // SAFETY: by contract the arguments are valid for this function.
    unsafe { real::execve(path, arguments, environment) }
}

/// Whether a program's loader is musl's. It may be asked between vfork and exec, where nothing allocates.
fn is_of_musl(path: *const c_char) -> bool {
    let mut bytes = [0_u8; 4096];
    // SAFETY: the kernel checks the path.
    let file = unsafe { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return false;
    }
    // SAFETY: the buffer is live, and as long as that.
    let length = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) };
    // SAFETY: opened above, and closed once.
    unsafe { libc::close(file) };
    // The interpreter's name is behind the program headers.
    let beginning = &bytes[..usize::try_from(length).unwrap_or(0)];
    beginning.starts_with(b"\x7fELF") && beginning.windows(9).any(|it| it == b"/ld-musl-")
}
