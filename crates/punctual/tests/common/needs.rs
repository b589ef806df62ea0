//! What a test needs of the machine, and how it reports that it is skipped.
#![allow(unsafe_code, reason = "geteuid")]

/// Ends a test that can't run here, and prints why.
macro_rules! skip {
    ($($words:tt)*) => {{
        eprintln!("SKIPPED: {}", format_args!($($words)*));
        return;
    }};
}
pub(crate) use skip;

/// Whether the tests run as root.
pub fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and never fails.
    unsafe { libc::geteuid() == 0 }
}

/// Whether a program can be started.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
