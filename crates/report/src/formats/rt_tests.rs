//! What `cyclictest --json` writes (rt-tests' `file_version` 1).

use punctual_record::Field;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::import::{Foreign, ForeignThread, number_option};
use super::sysinfo::SysInfo;
use super::{WriteError, decode_foreign, rows};
use crate::verdict;
use punctual_record::{RecordError, Run, SystemState, Tool, time};

/// The version of the file that we read and write.
const FILE_VERSION: u64 = 1;

/// The file. Two of its keys end in a colon; readers must expect them so.
#[derive(Serialize, Deserialize)]
struct Results {
    file_version: u64,
    #[serde(rename = "cmdline:", alias = "cmdline", default)]
    cmdline: String,
    #[serde(rename = "rt_test_version:", alias = "rt_test_version", default)]
    version: String,
    #[serde(default)]
    start_time: String,
    #[serde(default)]
    end_time: String,
    #[serde(default)]
    return_code: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sysinfo: Option<SysInfo>,
    num_threads: u64,
    /// 0 is microseconds, 1 nanoseconds.
    resolution_in_ns: u64,
    thread: BTreeMap<u64, ThreadResults>,
}

#[derive(Serialize, Deserialize)]
struct ThreadResults {
    #[serde(default)]
    histogram: BTreeMap<u64, u64>,
    cycles: u64,
    min: u64,
    max: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    avg: Option<f64>,
    #[serde(default)]
    cpu: Option<i64>,
    #[serde(default)]
    node: Option<i64>,
}

/// The mean of a thread that never woke, as C prints it: its sign differs between machines.
const NO_MEANS: [&str; 2] = [r#""avg": -nan,"#, r#""avg": nan,"#];

/// cyclictest divides by the number of samples, and writes no JSON if a thread has none: on a busy
/// machine one may not run before the first one has ended. The words can't be part of a string, in which
/// their quotes would be escaped.
pub(super) fn with_null_for_nan(bytes: &[u8]) -> Cow<'_, [u8]> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let Some(word) = NO_MEANS.iter().find(|word| text.contains(**word)) else {
        return Cow::Borrowed(bytes);
    };
    Cow::Owned(text.replace(word, r#""avg": null,"#).into_bytes())
}

/// Reads the file.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Run, RecordError> {
    let results: Results = decode_foreign(path, bytes)?;
    if results.file_version > FILE_VERSION {
        return Err(RecordError::Newer {
            path: path.to_owned(),
            what: "rt-tests file",
            version: results.file_version,
            reads: FILE_VERSION,
        });
    }
    let error = |place: &str, reason: &str| RecordError::malformed(path, place, reason);
    if results.thread.is_empty() || results.thread.len() as u64 != results.num_threads {
        return Err(error("thread", "not as many threads as num_threads says"));
    }
    let unit_ns = match results.resolution_in_ns {
        0 => 1000,
        1 => 1,
        _ => return Err(error("resolution_in_ns", "neither 0 (µs) nor 1 (ns)")),
    };
    let words: Vec<String> = results
        .cmdline
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let tool = words
        .first()
        .and_then(|word| word.rsplit('/').next())
        .unwrap_or("rt-tests");
    let begun = time::parse_rfc2822(&results.start_time);
    let ended = time::parse_rfc2822(&results.end_time);
    let measured = begun
        .zip(ended)
        .and_then(|(begun, ended)| ended.duration_since(begun).ok());
    let names: Vec<u64> = results.thread.keys().copied().collect();
    let end = number_option(&words, "-h", "--histogram");
    let end = end.or(number_option(&words, "-H", "--histofall"));
    let threads = results.thread.into_values();
    let threads = threads.map(|of| thread(of, end)).collect();
    let priority = number_option(&words, "-p", "--priority");
    Foreign {
        format: "rt-tests-json",
        tool: Tool {
            name: tool.to_owned(),
            version: results.version,
        },
        started: begun.map(time::rfc3339),
        measured_ns: measured.and_then(|length| u64::try_from(length.as_nanos()).ok()),
        failed: (results.return_code != 0).then_some(results.return_code),
        interval_ns: number_option(&words, "-i", "--interval").and_then(|us| us.checked_mul(1000)),
        policy: None,
        priority: priority
            .and_then(|p| u32::try_from(p).ok())
            .filter(|p| *p <= 99),
        unit_ns,
        unit_known: true,
        system: results.sysinfo.map(system),
        threads,
        command: words,
    }
    .into_run(path, |index| {
        format!("thread.{}", names.get(index).copied().unwrap_or(0))
    })
}

fn thread(results: ThreadResults, end: Option<u64>) -> ForeignThread {
    ForeignThread {
        cpu: results.cpu.and_then(|cpu| u64::try_from(cpu).ok()),
        rows: rows::in_use(results.histogram),
        count: results.cycles,
        min: results.min,
        max: results.max,
        mean: results.avg,
        end,
    }
}

fn system(info: SysInfo) -> SystemState {
    let is_real_time = info.realtime == Some(1);
    let mut system = info.system("rt-tests");
    if is_real_time {
        system.kernel.preemption = "rt".to_owned();
    }
    system.kernel.preemption_source = "rt-tests: sysinfo.realtime".to_owned();
    system
}

/// Writes the file, in microseconds like cyclictest without `-N`.
pub(super) fn write(run: &Run) -> Result<String, WriteError> {
    const UNIT_NS: u64 = 1000;
    let mut threads = BTreeMap::new();
    for (index, thread) in run.threads.iter().enumerate() {
        let of = rows::stepped(run, index, UNIT_NS)?;
        let node = run
            .system
            .processor
            .nodes
            .iter()
            .find(|node| thread.cpu.is_some_and(|cpu| node.cpus.contains(&cpu)));
        let number = |value: usize| i64::try_from(value).ok();
        threads.insert(
            index as u64,
            ThreadResults {
                histogram: of.rows,
                cycles: of.count,
                min: of.min,
                max: of.max,
                avg: of.mean,
                cpu: thread.cpu.and_then(number).or(Some(-1)),
                node: node.and_then(|node| number(node.node)).or(Some(-1)),
            },
        );
    }
    let dated = run.laboratory.is_none();
    let begun = time::parse_rfc3339(&run.started).filter(|_| dated);
    let measured = run
        .knows(Field::MeasuredTime)
        .then(|| Duration::from_nanos(run.measured_ns));
    let ended = begun.zip(measured);
    let ended = ended.and_then(|(at, measured)| at.checked_add(measured));
    let results = Results {
        file_version: FILE_VERSION,
        cmdline: run.command.join(" "),
        version: format!("{} {}", run.tool.name, run.tool.version),
        start_time: begun.map(time::rfc2822).unwrap_or_default(),
        end_time: ended.map(time::rfc2822).unwrap_or_default(),
        return_code: verdict::exit_status(run).into(),
        sysinfo: SysInfo::of(run).map(|info| SysInfo {
            realtime: Some(i64::from(run.system.kernel.preemption == "rt")),
            ..info
        }),
        num_threads: run.threads.len() as u64,
        resolution_in_ns: 0,
        thread: threads,
    };
    super::pretty(&results)
}
