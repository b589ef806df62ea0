//! The machine, as the results of jitterdebugger and of rt-tests state it.

use serde::{Deserialize, Serialize};

use punctual_record::{Run, SystemState, Unread, UnreadReason};

/// What `uname` says, and what each of the tools adds.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct SysInfo {
    pub sysname: String,
    pub nodename: String,
    pub release: String,
    pub version: String,
    pub machine: String,
    /// Of rt-tests: 1 for PREEMPT_RT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime: Option<i64>,
    /// Of jitterdebugger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_online: Option<u64>,
    /// Of jitterdebugger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution_in_ns: Option<u64>,
}

impl SysInfo {
    /// The machine of a run, where it is known.
    pub fn of(run: &Run) -> Option<Self> {
        run.knows(punctual_record::Field::System).then(|| Self {
            sysname: "Linux".to_owned(),
            nodename: run.system.hostname.clone(),
            release: run.system.kernel.release.clone(),
            version: run.system.kernel.version.clone(),
            machine: run.system.kernel.machine.clone(),
            ..Self::default()
        })
    }

    /// The same as a record states it, from results of `tool`.
    pub fn system(self, tool: &str) -> SystemState {
        let mut system = SystemState {
            hostname: self.nodename,
            ..SystemState::default()
        };
        system.kernel.release = self.release;
        system.kernel.version = self.version;
        system.kernel.machine = self.machine;
        system.kernel.preemption = "unknown".to_owned();
        system.unread.push(Unread {
            what: String::new(),
            why: UnreadReason::NotStated {
                tool: tool.to_owned(),
                kernel: true,
            },
        });
        system
    }
}
