//! The `results.json` of jitterdebugger, version 3.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::import::{Foreign, ForeignThread};
use super::sysinfo::SysInfo;
use super::{WriteError, decode_foreign, rows};
use punctual_record::{RecordError, Run, Tool};

/// The version of the file that we write and the newest that we read.
const VERSION: u64 = 3;

#[derive(Serialize, Deserialize)]
struct Results {
    /// Absent in the first version.
    #[serde(default)]
    version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sysinfo: Option<SysInfo>,
    cpu: BTreeMap<u64, CpuResults>,
}

#[derive(Serialize, Deserialize)]
struct CpuResults {
    histogram: BTreeMap<u64, u64>,
    count: u64,
    min: u64,
    max: u64,
    avg: Option<f64>,
}

/// Reads the file. Its "cpu" is the number of a thread: with `-a 2` there is a
/// "0" that ran on CPU 2, so the CPUs are unknown.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Run, RecordError> {
    let results: Results = decode_foreign(path, bytes)?;
    let version = results.version.unwrap_or(1);
    if version > VERSION {
        return Err(RecordError::Newer {
            path: path.to_owned(),
            what: "jitterdebugger results",
            version,
            reads: VERSION,
        });
    }
    if results.cpu.is_empty() {
        return Err(RecordError::malformed(
            path,
            "cpu",
            "no thread measured anything",
        ));
    }
    let resolution = results
        .sysinfo
        .as_ref()
        .and_then(|info| info.resolution_in_ns);
    let unit_ns = match resolution {
        None => 1000,
        Some(unit @ (1 | 1000)) => unit,
        Some(_) => {
            let place = "sysinfo.resolution_in_ns";
            return Err(RecordError::malformed(path, place, "neither 1 nor 1000"));
        }
    };
    let names: Vec<u64> = results.cpu.keys().copied().collect();
    Foreign {
        format: "jitterdebugger",
        tool: Tool {
            name: "jitterdebugger".to_owned(),
            version: format!("results version {version}"),
        },
        unit_ns,
        unit_known: resolution.is_some(),
        system: results.sysinfo.map(|info| info.system("jitterdebugger")),
        threads: results.cpu.into_values().map(thread).collect(),
        ..Foreign::default()
    }
    .into_run(path, |index| {
        format!("cpu.{}", names.get(index).copied().unwrap_or(0))
    })
}

fn thread(results: CpuResults) -> ForeignThread {
    ForeignThread {
        cpu: None,
        rows: rows::in_use(results.histogram),
        count: results.count,
        min: results.min,
        max: results.max,
        mean: results.avg,
        end: None,
    }
}

/// Writes the file in microseconds, its default.
pub(super) fn write(run: &Run) -> Result<String, WriteError> {
    const UNIT_NS: u64 = 1000;
    let mut cpus = BTreeMap::new();
    for index in 0..run.threads.len() {
        let of = rows::stepped(run, index, UNIT_NS)?;
        // jitterplot counts the keys up from 0 and stops at the first gap: they
        // are the threads' numbers there too.
        cpus.insert(
            index as u64,
            CpuResults {
                histogram: of.rows,
                count: of.count,
                min: of.min,
                max: of.max,
                avg: of.mean,
            },
        );
    }
    let results = Results {
        version: Some(VERSION),
        sysinfo: SysInfo::of(run).map(|info| SysInfo {
            cpus_online: Some(run.system.processor.online.len() as u64),
            resolution_in_ns: Some(UNIT_NS),
            ..info
        }),
        cpu: cpus,
    };
    super::pretty(&results)
}
