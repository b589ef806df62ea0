//! The limit of open files, for loads that need very many.

fn file_limit() -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit that the kernel fills.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit
}

fn set_file_limit(limit: &libc::rlimit) -> bool {
    // SAFETY: the pointer is to a live rlimit that is only read.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) == 0 }
}

/// Makes room for so many open files in this process: the soft limit goes up, and the hard one
/// too where that is allowed (CAP_SYS_RESOURCE). Gives the limit then in force.
pub fn want_files(wanted: u64) -> u64 {
    let limit = file_limit();
    if limit.rlim_cur < wanted {
        set_file_limit(&libc::rlimit {
            rlim_cur: wanted,
            rlim_max: limit.rlim_max.max(wanted),
        });
    }
    file_limit().rlim_cur
}

/// The limit that [`want_files`] would come to; this process's own stays as it is.
fn possible_files(wanted: u64) -> u64 {
    let limit = file_limit();
    if limit.rlim_max >= wanted {
        return wanted;
    }
    let raised = libc::rlimit {
        rlim_max: wanted,
        ..limit
    };
    if set_file_limit(&raised) {
        // Lowering is always allowed.
        set_file_limit(&limit);
        return wanted;
    }
    limit.rlim_max
}

/// Files that a worker has open besides: the standard ones and the board.
pub const OTHER_FILES: u64 = 64;

/// How many descriptors a worker may have, if it wants so many: none are taken.
pub fn files_for(wanted: u64) -> u64 {
    let limit = possible_files(wanted.saturating_add(OTHER_FILES));
    limit.saturating_sub(OTHER_FILES).min(wanted)
}
