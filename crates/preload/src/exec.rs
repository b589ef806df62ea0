//! Programs that the program starts. One of another C library runs without this library: a line says so.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::report;

type Execve =
    unsafe extern "C-unwind" fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int;

/// The C library's function, or that of another preloaded library.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks it up at the load: the lookup takes locks, and another thread may hold them during a fork.
pub(crate) fn set_up() {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"execve".as_ptr()) };
    NEXT.store(found, Ordering::Relaxed);
}

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
    let next = NEXT.load(Ordering::Relaxed);
    if next.is_null() {
        // SAFETY: the kernel checks the arguments.
        return unsafe { libc::syscall(libc::SYS_execve, path, arguments, environment) } as c_int;
    }
    // SAFETY: a function of this name has this type.
    let next = unsafe { transmute::<*mut c_void, Execve>(next) };
    // SAFETY: by contract the arguments are valid for this function.
    unsafe { next(path, arguments, environment) }
}

/// Whether a program's loader is musl's. It may be asked between vfork and exec, where nothing allocates.
fn is_of_musl(path: *const c_char) -> bool {
    let mut bytes = [0_u8; 1024];
    // System calls: the C library's functions are cancellation points, which execve is not, and may be replaced.
    // SAFETY: the kernel checks the path.
    if unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, libc::X_OK) } != 0 {
        return false;
    }
    // A FIFO must not block it.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    // SAFETY: the kernel checks the path.
    let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags) };
    if file < 0 {
        return false;
    }
    // SAFETY: the buffer is live, and as long as that.
    let length = unsafe { libc::syscall(libc::SYS_read, file, bytes.as_mut_ptr(), bytes.len()) };
    // SAFETY: opened above, and closed once.
    unsafe { libc::syscall(libc::SYS_close, file) };
    // The interpreter's name is behind the program headers.
    let beginning = &bytes[..usize::try_from(length).unwrap_or(0)];
    beginning.starts_with(b"\x7fELF") && beginning.windows(9).any(|it| it == b"/ld-musl-")
}
