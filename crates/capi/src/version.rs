//! The versions of the header and of the library.

use std::ffi::c_uint;

/// The version of this header. A later minor version adds to it; another major version changes
/// it.
pub const PUNCTUAL_VERSION_MAJOR: c_uint = 0;
/// See PUNCTUAL_VERSION_MAJOR.
pub const PUNCTUAL_VERSION_MINOR: c_uint = 1;
/// See PUNCTUAL_VERSION_MAJOR.
pub const PUNCTUAL_VERSION_PATCH: c_uint = 0;
/// 10000 * major + 100 * minor + patch, to be compared in #if.
pub const PUNCTUAL_VERSION: c_uint =
    PUNCTUAL_VERSION_MAJOR * 10000 + PUNCTUAL_VERSION_MINOR * 100 + PUNCTUAL_VERSION_PATCH;

/// Whether a number equals the text from cargo.
const fn is(number: c_uint, text: &str) -> bool {
    matches!(c_uint::from_str_radix(text, 10), Ok(value) if value == number)
}

// cbindgen reads the numbers above; it can't read cargo's.
const _: () = assert!(
    is(PUNCTUAL_VERSION_MAJOR, env!("CARGO_PKG_VERSION_MAJOR"))
        && is(PUNCTUAL_VERSION_MINOR, env!("CARGO_PKG_VERSION_MINOR"))
        && is(PUNCTUAL_VERSION_PATCH, env!("CARGO_PKG_VERSION_PATCH"))
        && PUNCTUAL_VERSION_MINOR < 100
        && PUNCTUAL_VERSION_PATCH < 100
);

/// The version of the library that the program runs with, in the format of PUNCTUAL_VERSION,
/// which is the version of the header that the program was compiled with.
///
/// A real-time thread may call it: no system call, no lock. It never fails.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_version() -> c_uint {
    PUNCTUAL_VERSION
}
