//! What a guest has to do, as told in a file of its initramfs. The kernel's command line
//! would hold 2 KB.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Where the guest finds its [`Job`].
pub const JOB_FILE: &str = "/lab/job.json";
/// Where the guest's work leaves what is to be handed out.
pub const OUT: &str = "/out";
/// Libraries of a program that was brought along.
pub const LIBRARIES: &str = "/lab/lib";
/// The program that was brought along lies here.
pub const PROGRAMS: &str = "/lab/bin";

/// This very binary, in the guest.
pub const OURSELVES: &str = "/init";

/// A root file system of the user's lies here, where there is one.
pub const ROOT: &str = "/lab/root";
/// This very binary, in there.
pub const IN_ROOT: &str = "/lab/punctual";
/// Where programs are looked for in there.
pub const ROOT_PATH: &str = "/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment variable by which programs and loads are told the seed.
pub const SEED_VARIABLE: &str = "PUNCTUAL_LAB_SEED";

/// One guest's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The program: [`OURSELVES`], or one that was brought along.
    pub program: String,
    /// What it is called by, and its arguments.
    pub words: Vec<String>,
    /// Loads to run beside it, for a program that starts none itself.
    pub load: Option<String>,
    /// The seed, told to the program and the loads by [`SEED_VARIABLE`].
    pub seed: u64,
    /// Modules of the kernel, in the order of loading.
    pub modules: Vec<String>,
    /// Whether the work runs in a root file system of the user's, in [`ROOT`].
    #[serde(default)]
    pub rooted: bool,
    /// Virtual time from boot after which the work is ended.
    pub virtual_limit_ns: u64,
}

/// The seed for loads that are started here: 0, which changes nothing about them, but in a guest
/// whose seed is another than the first.
#[must_use]
pub fn load_seed() -> u64 {
    // Nobody's environment is to change the loads of a machine of their own.
    let told = Path::new(JOB_FILE)
        .exists()
        .then(|| env::var(SEED_VARIABLE));
    let seed = told.and_then(|seed| seed.ok()?.parse().ok());
    seed.map_or(0, |seed: u64| seed.saturating_sub(1))
}

/// How a guest's work came to its end.
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
    /// It could not be begun.
    Failed {
        /// Why, in one line.
        reason: String,
    },
}

/// The frame `result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// How the work ended.
    #[serde(flatten)]
    pub end: End,
    /// The kernel's release, as it says itself.
    pub release: String,
    /// Virtual time from boot to the first process.
    pub boot_ns: u64,
    /// Virtual time from boot to the end of the work.
    pub virtual_ns: u64,
    /// What could not be had and may not matter: a mount, a module.
    pub lacking: BTreeMap<String, String>,
    /// Work of the loads beside a program, as the verb `load` prints it.
    pub loads: Option<serde_json::Value>,
}
