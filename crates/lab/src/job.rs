//! The job of a guest, in a file of its initramfs: the kernel's command line is limited to 2 KB.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use punctual_record::lab::GuestFault;
use serde::{Deserialize, Serialize};

/// The path of the guest's [`Job`].
pub const JOB_FILE: &str = "/lab/job.json";
/// The directory for the results of the guest's work.
pub const OUT: &str = "/out";
/// Libraries of a program that was copied into the guest.
pub const LIBRARIES: &str = "/lab/lib";
/// The directory of programs that were copied into the guest.
pub const PROGRAMS: &str = "/lab/bin";

/// This binary, in the guest.
pub const OURSELVES: &str = "/init";

/// The root file system given by the user, if there is one.
pub const ROOT: &str = "/lab/root";
/// This binary, in that root file system.
pub const IN_ROOT: &str = "/lab/punctual";
/// PATH in that root file system.
pub const ROOT_PATH: &str = "/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment variable that passes the seed to programs and loads.
pub const SEED_VARIABLE: &str = "PUNCTUAL_LAB_SEED";

/// One guest's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The program: [`OURSELVES`], or one that was copied into the guest.
    pub program: String,
    /// Its name and its arguments.
    pub words: Vec<String>,
    /// Loads to run under a program that starts none itself.
    pub load: Option<String>,
    /// The seed, which [`SEED_VARIABLE`] passes to the program and the loads.
    pub seed: u64,
    /// Modules of the kernel, in the order of loading.
    pub modules: Vec<String>,
    /// Whether the work runs in the user's root file system, in [`ROOT`].
    #[serde(default)]
    pub rooted: bool,
    /// Virtual time from boot after which the work is ended.
    pub virtual_limit_ns: u64,
}

/// The seed for loads: 0, which changes nothing, except in a guest with another seed than 1.
#[must_use]
pub fn load_seed() -> u64 {
    // A user's environment must not change the loads outside the laboratory.
    let told = Path::new(JOB_FILE)
        .exists()
        .then(|| env::var(SEED_VARIABLE));
    let seed = told.and_then(|seed| seed.ok()?.parse().ok());
    seed.map_or(0, |seed: u64| seed.saturating_sub(1))
}

/// How a guest's work ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum End {
    /// The program ended by itself.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// A signal ended it.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// Virtual time was over.
    TimeOver,
    /// It could not start.
    Failed {
        /// Why.
        fault: GuestFault,
    },
}

/// The frame `result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// How the work ended.
    #[serde(flatten)]
    pub end: End,
    /// The kernel's release, as the kernel states it.
    pub release: String,
    /// Virtual time from boot to the first process.
    pub boot_ns: u64,
    /// Virtual time from boot to the end of the work.
    pub virtual_ns: u64,
    /// What was not available and may not matter: a mount, a module.
    pub lacking: BTreeMap<String, String>,
    /// Work of the loads beside a program, as the verb `load` prints it.
    pub loads: Option<serde_json::Value>,
    /// Words of the kernel's command line that the kernel didn't know.
    pub unknown: Vec<String>,
}
