//! The limit of open files, for loads that need very many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Whether a limit, which none is, is lower than what is wanted.
fn is_below(limit: Option<u64>, wanted: u64) -> bool {
    limit.is_some_and(|limit| limit < wanted)
}

/// Makes room for so many open files in this process: the soft limit goes up, and the hard one
/// too where that is allowed (CAP_SYS_RESOURCE). Gives the limit then in force.
pub fn want_files(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if is_below(limit.current, wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum.map(|maximum| maximum.max(wanted)),
        };
        // Where it is refused, the limit that is read back says so.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The limit that [`want_files`] would come to; this process's own stays as it is.
fn possible_files(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let Some(maximum) = limit.maximum.filter(|&maximum| maximum < wanted) else {
        return wanted;
    };
    let raised = Rlimit {
        current: limit.current,
        maximum: Some(wanted),
    };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        // Lowering is always allowed.
        let _ = setrlimit(Resource::Nofile, limit);
        return wanted;
    }
    maximum
}

/// Files that a worker has open besides: the standard ones and the board.
pub const OTHER_FILES: u64 = 64;

/// How many descriptors a worker may have, if it wants so many: none are taken.
pub fn files_for(wanted: u64) -> u64 {
    let limit = possible_files(wanted.saturating_add(OTHER_FILES));
    limit.saturating_sub(OTHER_FILES).min(wanted)
}
