//! A knob that is named on the command line.

use punctual_record::cpu_list;
use punctual_record::finding::FindingId;
use punctual_record::tuning::{NapiMode, RouteMetric, ThreadSetting, is_link_address, scheduling};
use punctual_rt::cpulist;

use super::super::units;
use super::values::ValueError;

/// The longest `rto_min` in ms: the kernel's longest time-out.
const MOST_RTO_MS: u64 = 120_000;
/// The most segments of a first window.
const MOST_SEGMENTS: u32 = 1_000;

/// A knob: what fixes a finding, or a setting with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnobArgument {
    /// What fixes this finding.
    Finding(FindingId),
    /// This value of a file.
    File {
        /// The file.
        path: String,
        /// The value with the knob on.
        value: String,
    },
    /// This value of a metric of the route to a machine.
    Route {
        /// The metric.
        metric: RouteMetric,
        /// The machine; absent for that of `--path`.
        host: Option<String>,
        /// The value.
        value: u32,
    },
    /// A permanent entry of the neighbour table.
    Neighbour {
        /// The machine that messages are for; absent for that of `--path`.
        host: Option<String>,
        /// Its link-layer address; absent for the one that the table has.
        link: Option<String>,
    },
    /// Where a network device's packets are received.
    Napi {
        /// The device; absent for that of the route to the machine of `--path`.
        device: Option<String>,
        /// In softirqs, or in threads.
        mode: NapiMode,
    },
    /// What one thread has.
    Thread {
        /// Its policy or its CPUs.
        what: ThreadSetting,
        /// Its number.
        tid: i32,
        /// When it started, in ticks since boot, if that must be so.
        start: Option<u64>,
        /// The value, as the setting has it.
        value: String,
    },
}

impl KnobArgument {
    /// The name of a neighbour's entry.
    const NEIGHBOUR: &str = "neighbour";
    /// That of where packets are received.
    const NAPI: &str = "napi";

    /// Names that take `@HOST`, `@DEVICE`, or `@TID`.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let metrics = RouteMetric::ALL.map(RouteMetric::name);
        let threads = ThreadSetting::ALL.map(ThreadSetting::name);
        [&metrics[..], &[Self::NEIGHBOUR, Self::NAPI], &threads].concat()
    }

    /// Reads a knob.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        if let Some(id) = FindingId::by_name(text) {
            return Ok(Self::Finding(id));
        }
        let (name, value) = match text.split_once('=') {
            Some((_, "")) => return Err(ValueError::Knob),
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if name.starts_with('/') {
            let (path, value) = (name.to_owned(), value.ok_or(ValueError::Knob)?.to_owned());
            return Ok(Self::File { path, value });
        }
        let (kind, host) = match name.split_once('@') {
            Some((_, "")) => return Err(ValueError::Knob),
            Some((kind, host)) => (kind, Some(host.to_owned())),
            None => (name, None),
        };
        if kind == Self::NEIGHBOUR {
            let link = match value {
                None | Some("permanent") => None,
                Some(link) if is_link_address(link) => Some(link.to_ascii_lowercase()),
                Some(_) => return Err(ValueError::Neighbour),
            };
            return Ok(Self::Neighbour { host, link });
        }
        if kind == Self::NAPI {
            let mode = value.and_then(NapiMode::parse).ok_or(ValueError::Napi)?;
            // The name of a directory in /sys.
            let is_device = |it: &String| !it.contains('/') && !it.starts_with('.');
            return match host.as_ref().is_none_or(is_device) {
                true => Ok(Self::Napi { device: host, mode }),
                false => Err(ValueError::Knob),
            };
        }
        if let Some(what) = ThreadSetting::ALL.into_iter().find(|it| it.name() == kind) {
            let read = host.as_deref().and_then(thread);
            let (tid, start) = read.ok_or(ValueError::Thread)?;
            let value = value.and_then(|value| match what {
                ThreadSetting::Scheduling => scheduling(value),
                ThreadSetting::Affinity => cpulist::numbers(value).ok().map(|cpus| cpu_list(&cpus)),
            });
            return Ok(Self::Thread {
                what,
                tid,
                start,
                value: value.ok_or(ValueError::ThreadSetting(what))?,
            });
        }
        if let Some(metric) = RouteMetric::ALL.into_iter().find(|it| it.name() == kind) {
            let value = read_metric(metric, value).ok_or(ValueError::RouteMetric(metric))?;
            return Ok(Self::Route {
                metric,
                host,
                value,
            });
        }
        match value {
            Some(value) if host.is_none() && is_sysctl(name) => Ok(Self::File {
                path: format!("/proc/sys/{}", name.replace('.', "/")),
                value: value.to_owned(),
            }),
            _ => Err(ValueError::Knob),
        }
    }
}

/// Whether a name is one that sysctl takes, with dots.
fn is_sysctl(name: &str) -> bool {
    let mut parts = name.split('.');
    let is_plain = |part: &str| !part.is_empty() && !part.contains('/');
    name.contains('.') && parts.all(is_plain)
}

/// The number of a thread, and when it started: `4711`, `4711:812345`.
fn thread(text: &str) -> Option<(i32, Option<u64>)> {
    let (tid, start) = match text.split_once(':') {
        Some((tid, start)) => (tid, Some(start.parse().ok()?)),
        None => (text, None),
    };
    let tid = tid.parse().ok().filter(|tid| *tid > 0)?;
    Some((tid, start))
}

fn read_metric(metric: RouteMetric, value: Option<&str>) -> Option<u32> {
    match (metric, value) {
        (RouteMetric::RtoMin, Some(text)) => {
            // Without a unit it would be in s.
            let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
            let ns = units::duration(text).ok().filter(|_| has_unit)?;
            let ms = ns / 1_000_000;
            let is_whole = ms * 1_000_000 == ns && (1..=MOST_RTO_MS).contains(&ms);
            is_whole.then(|| ms.try_into().ok()).flatten()
        }
        (RouteMetric::InitCwnd, Some(text)) => {
            let segments = text.parse().ok()?;
            (1..=MOST_SEGMENTS).contains(&segments).then_some(segments)
        }
        (RouteMetric::QuickAck, None | Some("1")) => Some(1),
        _ => None,
    }
}

/// The name of a knob whose change is restored.
///
/// # Errors
/// It is the name of none.
pub fn name(text: &str) -> Result<String, ValueError> {
    let is_file = text.starts_with('/') && text.len() > 1;
    let is_finding = FindingId::by_name(text).is_some();
    let is_network = text
        .split_once('@')
        .is_some_and(|(kind, host)| !host.is_empty() && KnobArgument::names().contains(&kind));
    match is_sysctl(text) && !is_network {
        true => Ok(format!("/proc/sys/{}", text.replace('.', "/"))),
        false if is_file || is_finding || is_network => Ok(text.to_owned()),
        false => Err(ValueError::KnobName),
    }
}

#[cfg(test)]
mod tests {
    use punctual_machine::tune::setting_of_file;
    use punctual_record::tuning::{
        Change, Neighbour, NetworkDevice, Route, Setting, ThreadIdentity,
    };

    use super::*;

    #[test]
    fn knobs_are_read() {
        let route = |metric, host: Option<&str>, value| KnobArgument::Route {
            metric,
            host: host.map(str::to_owned),
            value,
        };
        let file = |path: &str, value: &str| KnobArgument::File {
            path: path.to_owned(),
            value: value.to_owned(),
        };
        let neighbour = |host: Option<&str>, link: Option<&str>| KnobArgument::Neighbour {
            host: host.map(str::to_owned),
            link: link.map(str::to_owned),
        };
        let napi = |device: Option<&str>, mode| KnobArgument::Napi {
            device: device.map(str::to_owned),
            mode,
        };
        let thread = |what, start, value: &str| KnobArgument::Thread {
            what,
            tid: 4711,
            start,
            value: value.to_owned(),
        };
        for (text, knob) in [
            (
                "rto_min@10.0.0.2=5ms",
                route(RouteMetric::RtoMin, Some("10.0.0.2"), 5),
            ),
            ("rto_min=0.04s", route(RouteMetric::RtoMin, None, 40)),
            (
                "initcwnd@host=30",
                route(RouteMetric::InitCwnd, Some("host"), 30),
            ),
            (
                "quickack@fd00::2",
                route(RouteMetric::QuickAck, Some("fd00::2"), 1),
            ),
            ("quickack=1", route(RouteMetric::QuickAck, None, 1)),
            ("neighbour@10.0.0.2", neighbour(Some("10.0.0.2"), None)),
            ("neighbour=permanent", neighbour(None, None)),
            (
                "neighbour@fd00::2=02:00:00:00:00:0A",
                neighbour(Some("fd00::2"), Some("02:00:00:00:00:0a")),
            ),
            (
                "napi@eth0.5=softirq",
                napi(Some("eth0.5"), NapiMode::Softirq),
            ),
            ("napi=threads", napi(None, NapiMode::Threads(None))),
            (
                "napi@eth0=threads:70",
                napi(Some("eth0"), NapiMode::Threads(Some(70))),
            ),
            (
                "scheduling@4711=fifo:79",
                thread(ThreadSetting::Scheduling, None, "1 79 0"),
            ),
            (
                "affinity@4711:812345=3,0-1",
                thread(ThreadSetting::Affinity, Some(812_345), "0-1,3"),
            ),
            ("/tmp/a=b=c", file("/tmp/a", "b=c")),
            (
                "net.ipv4.tcp_slow_start_after_idle=0",
                file("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0"),
            ),
            (
                "ksm",
                KnobArgument::Finding(FindingId::by_name("ksm").unwrap()),
            ),
        ] {
            assert_eq!(KnobArgument::parse(text), Ok(knob), "{text}");
        }
    }

    /// What `tune persist` writes is what `tune apply` reads.
    #[test]
    fn changes_are_named_as_they_are_read() {
        let namespace = 7;
        let metric = |metric| Setting::RouteMetric {
            route: Route {
                namespace,
                destination: "10.0.0.0/24".to_owned(),
                table: 254,
                tos: 0,
                priority: 0,
            },
            metric,
        };
        let (path, ratio) = ("/proc/sys/net/a".to_owned(), "/proc/sys/vm/dirty_ratio");
        let network_file = Setting::NetworkFile {
            namespace,
            path: path.clone(),
        };
        let (device, address) = ("eth0".to_owned(), "10.0.0.2".to_owned());
        let neighbour = Setting::Neighbour {
            neighbour: Neighbour {
                namespace,
                device: device.clone(),
                address,
            },
        };
        let napi = Setting::Napi {
            device: NetworkDevice {
                namespace,
                name: device,
            },
        };
        let (pair, _) = setting_of_file(ratio, "5");
        let thread = ThreadIdentity {
            tid: 7,
            name: "hog".to_owned(),
            start: 9,
        };
        let scheduling = ThreadSetting::Scheduling.of(thread.clone());
        let affinity = ThreadSetting::Affinity.of(thread);
        for (name, setting, value, argument) in [
            ("ksm", Setting::File { path }, "1", "ksm"),
            (
                "/proc/sys/net/a",
                network_file,
                "1 2",
                "/proc/sys/net/a=1 2",
            ),
            (
                ratio,
                pair,
                "/proc/sys/vm/dirty_ratio 5",
                "/proc/sys/vm/dirty_ratio=5",
            ),
            (
                "rto_min@10.0.0.2",
                metric(RouteMetric::RtoMin),
                "5 lock",
                "rto_min@10.0.0.2=5ms",
            ),
            (
                "initcwnd@h",
                metric(RouteMetric::InitCwnd),
                "30",
                "initcwnd@h=30",
            ),
            (
                "quickack@h",
                metric(RouteMetric::QuickAck),
                "1",
                "quickack@h=1",
            ),
            (
                "neighbour@10.0.0.2",
                neighbour,
                "permanent 02:00:00:00:00:01",
                "neighbour@10.0.0.2=02:00:00:00:00:01",
            ),
            ("napi@eth0", napi.clone(), "softirq", "napi@eth0=softirq"),
            ("napi@eth0", napi.clone(), "threads", "napi@eth0=threads"),
            ("napi@eth0", napi, "threads fifo:70", "napi@eth0=threads:70"),
            (
                "scheduling@7:9",
                scheduling,
                "1 79 0",
                "scheduling@7:9=fifo:79",
            ),
            ("affinity@7", affinity, "0-1", "affinity@7=0-1"),
        ] {
            let change = Change {
                knob: name.to_owned().into(),
                setting,
                value: value.to_owned(),
            };
            assert_eq!(change.argument(), argument);
            let read = KnobArgument::parse(argument);
            let is_it = match &read {
                Ok(KnobArgument::Napi { mode, .. }) => mode.value() == value,
                Ok(KnobArgument::Thread { value: read, .. }) => read == value,
                Ok(KnobArgument::Neighbour { link, .. }) => link.is_some(),
                Ok(KnobArgument::File { path, value }) => format!("{path}={value}") == argument,
                other => other.is_ok(),
            };
            assert!(is_it, "{read:?}");
        }
    }

    #[test]
    fn what_is_no_knob_is_refused() {
        for text in [
            "",
            "=",
            "/",
            "/a",
            "/a=",
            "rto_min",
            "rto_min=5",
            "rto_min=0ms",
            "rto_min=1500us",
            "rto_min=3m",
            "rto_min@=5ms",
            "rto_min@h",
            "initcwnd=0",
            "initcwnd=1001",
            "initcwnd",
            "quickack=0",
            "quickack@h=2",
            "neighbour=stale",
            "neighbour@",
            "neighbour@h=02",
            "neighbour@h=02:0",
            "neighbour@h=02:00:0g",
            "napi",
            "napi@eth0",
            "napi@eth0=on",
            "napi@eth0=threads:0",
            "napi@eth0=threads:100",
            "napi@../x=threads",
            "napi@.=threads",
            "scheduling@4711",
            "scheduling@4711=fifo",
            "scheduling=fifo:1",
            "scheduling@0=fifo:1",
            "scheduling@-1=fifo:1",
            "scheduling@1:x=fifo:1",
            "affinity@4711=",
            "affinity@4711=x",
            "affinity@hog=0",
            "net..a=1",
            "a.b",
            "a.b/c=1",
            "rto_max@h=5ms",
            "a.b@h=1",
            "nosuch",
        ] {
            assert!(KnobArgument::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_changed_knobs_are_read() {
        let read = |text: &str| name(text).ok();
        assert_eq!(
            read("rto_min@10.0.0.2"),
            Some("rto_min@10.0.0.2".to_owned())
        );
        assert_eq!(read("net.core.x"), Some("/proc/sys/net/core/x".to_owned()));
        assert_eq!(read("ksm"), Some("ksm".to_owned()));
        for text in ["", "/", "rto_min", "rto_min@", "nosuch", "x@h"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
