//! The limit of open files, for loads that need very many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Whether a limit (`None`: unlimited) is lower than what is needed.
fn is_below(limit: Option<u64>, wanted: u64) -> bool {
    limit.is_some_and(|limit| limit < wanted)
}

/// Raises this process's limit of open files to this number: the soft limit, and the hard limit if
/// that is allowed (CAP_SYS_RESOURCE). Returns the limit then in force.
pub fn raise_file_limit_to(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if is_below(limit.current, wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum.map(|maximum| maximum.max(wanted)),
        };
        // If it is refused, the limit that is read back shows it.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The limit that [`raise_file_limit_to`] would reach; this process's own limit is not changed.
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

/// Other open files of a worker: the standard ones and the board.
pub const OTHER_FILES: u64 = 64;

/// How many descriptors a worker can have, if it needs this many.
pub fn files_for(wanted: u64) -> u64 {
    let limit = possible_files(wanted.saturating_add(OTHER_FILES));
    limit.saturating_sub(OTHER_FILES).min(wanted)
}
