//! What the kernel keeps of each CPU for ordinary tasks while real-time tasks would take all of it.

use punctual_record::taskset::analysis::ServerTime;

use super::processor::online;
use crate::config::Config;
use crate::root::{Reader, Root};
use crate::version::Version;

/// The slowest tick of a kernel: where this one's isn't known.
const SLOWEST_TICK_NS: u64 = 10_000_000;

/// Time for ordinary tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrdinaryTimes {
    /// By the fair server, from Linux 6.12 on.
    pub fair_server: Option<ServerTime>,
    /// By RT throttling: before that, and with `RT_GROUP_SCHED`.
    pub rt_throttling: Option<ServerTime>,
}

/// Reads it. What can't be read is taken as kernels have it where nobody changed it. `tick_ns`: how often
/// the kernel looks.
#[must_use]
pub fn ordinary_times(root: &Root, tick_ns: Option<u64>) -> OrdinaryTimes {
    let mut reader = Reader::new(root);
    let release = reader
        .text("/proc/sys/kernel/osrelease")
        .unwrap_or_default();
    let version = Version::parse(&release);
    let overrun_ns = tick_ns.unwrap_or(SLOWEST_TICK_NS);
    // Of an unknown kernel both.
    let has_server = version.is_none_or(|version| version >= Version(6, 12));
    let throttles = version.is_none_or(|version| version < Version(6, 12)) || {
        let config = Config::read(root, release.trim()).0;
        config.is_none_or(|config| config.is_set("RT_GROUP_SCHED"))
    };
    OrdinaryTimes {
        fair_server: has_server
            .then(|| fair_server(root, &mut reader, overrun_ns))
            .flatten(),
        rt_throttling: throttles
            .then(|| rt_throttling(&mut reader, overrun_ns))
            .flatten(),
    }
}

/// Of the CPUs the one with the most.
fn fair_server(root: &Root, reader: &mut Reader<'_>, overrun_ns: u64) -> Option<ServerTime> {
    let usual = ServerTime {
        runtime_ns: 50_000_000,
        period_ns: 1_000_000_000,
        overrun_ns,
        assumed: true,
    };
    let mut found: Option<ServerTime> = None;
    for cpu in online(root) {
        let directory = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}");
        let mut number = |name: &str| reader.number::<u64>(&format!("{directory}/{name}"));
        let (Some(runtime_ns), Some(period_ns)) = (number("runtime"), number("period")) else {
            return Some(usual);
        };
        let most = found.map_or(0, |found| found.runtime_ns);
        if runtime_ns > most && runtime_ns <= period_ns {
            found = Some(ServerTime {
                runtime_ns,
                period_ns,
                overrun_ns,
                assumed: false,
            });
        }
    }
    found
}

fn rt_throttling(reader: &mut Reader<'_>, overrun_ns: u64) -> Option<ServerTime> {
    let runtime_us = reader.number::<i64>("/proc/sys/kernel/sched_rt_runtime_us");
    let period_us = reader.number::<u64>("/proc/sys/kernel/sched_rt_period_us");
    let assumed = runtime_us.is_none() || period_us.is_none();
    let period_us = period_us.unwrap_or(1_000_000);
    // -1: never.
    let runtime_us = u64::try_from(runtime_us.unwrap_or(950_000)).ok()?;
    let kept_us = period_us
        .checked_sub(runtime_us)
        .filter(|kept_us| *kept_us > 0)?;
    Some(ServerTime {
        runtime_ns: kept_us.saturating_mul(1_000),
        period_ns: period_us.saturating_mul(1_000),
        overrun_ns,
        assumed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two CPUs with this release, configuration, and files.
    fn times(release: &str, config: &str, files: &[(&str, &str)]) -> OrdinaryTimes {
        let directory = tempfile::tempdir().expect("a directory");
        let all = [
            ("/proc/sys/kernel/osrelease", release),
            ("/sys/devices/system/cpu/online", "0-1\n"),
            (&format!("/boot/config-{}", release.trim()), config),
        ];
        for (path, text) in all.iter().chain(files) {
            let path = directory.path().join(&path[1..]);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        ordinary_times(&Root::recorded(directory.path()), Some(4_000_000))
    }

    #[test]
    fn the_kernel_and_its_files_say_what_is_kept() {
        let ns = |of: Option<ServerTime>| of.map(|of| (of.runtime_ns, of.period_ns, of.assumed));
        let throttling = [
            ("/proc/sys/kernel/sched_rt_runtime_us", "900000\n"),
            ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ];
        let usual = Some((50_000_000, 1_000_000_000, true));
        let new = times("6.12.1\n", "", &throttling);
        assert_eq!((ns(new.fair_server), ns(new.rt_throttling)), (usual, None));
        assert_eq!(new.fair_server.map(|of| of.overrun_ns), Some(4_000_000));
        let old = times("6.1.0-rt\n", "", &throttling);
        let kept = Some((100_000_000, 1_000_000_000, false));
        assert_eq!((ns(old.fair_server), ns(old.rt_throttling)), (None, kept));
        let groups = times("6.18.0\n", "CONFIG_RT_GROUP_SCHED=y\n", &throttling);
        assert_eq!(ns(groups.rt_throttling), kept);
        // Switched off, and of one CPU alone.
        let server = |cpu: u8, runtime: &'static str| {
            let directory = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}");
            [
                (format!("{directory}/runtime"), runtime),
                (format!("{directory}/period"), "500000000\n"),
            ]
        };
        let with = |first: &'static str, second: &'static str| {
            let files = [server(0, first), server(1, second)].concat();
            let files: Vec<(&str, &str)> = files
                .iter()
                .map(|(path, text)| (&path[..], *text))
                .collect();
            ns(times("7.1.0\n", "", &files).fair_server)
        };
        assert_eq!(with("0\n", "0\n"), None);
        assert_eq!(
            with("0\n", "20000000\n"),
            Some((20_000_000, 500_000_000, false))
        );
        let off = [("/proc/sys/kernel/sched_rt_runtime_us", "-1\n")];
        assert_eq!(times("6.1.0\n", "", &off), OrdinaryTimes::default());
        // A kernel that doesn't say what it is.
        let unknown = times("?", "", &[]);
        assert_eq!(
            (ns(unknown.fair_server), ns(unknown.rt_throttling)),
            (usual, usual)
        );
    }
}
