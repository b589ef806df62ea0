//! Changes as files that make them again at each boot.

use std::fmt::Write as _;
use std::path::Path;

use punctual_record::cpu_list;
use punctual_record::finding::FindingId;
use punctual_record::tuning::{Change, Knob, Setting};

/// What stays changed, and what it was made for.
#[derive(Debug, Clone, Copy)]
pub struct Persistence<'p> {
    /// The settings.
    pub kept: &'p [Change],
    /// The CPUs for real-time work, if they were named.
    pub cpus: &'p [usize],
    /// The priority of the program, if it was named.
    pub priority: Option<u32>,
    /// This program.
    pub program: &'p str,
    /// The directory of the journal.
    pub state: &'p Path,
}

/// A file that is read at each boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentFile {
    /// Its name beside others.
    pub name: &'static str,
    /// Where it is read.
    pub place: &'static str,
    /// Its lines, without the comment at the top; none if it is not needed.
    lines: String,
}

impl PersistentFile {
    /// Its text where it is only to be copied.
    #[must_use]
    pub fn to_copy(&self) -> Option<String> {
        let how = format!("Copy to {}; punctual tune persist does it.", self.place);
        self.text(&how)
    }

    /// Its text where it is read.
    #[must_use]
    pub fn installed(&self) -> Option<String> {
        self.text("Written by punctual tune persist; punctual tune restore removes it.")
    }

    fn text(&self, comment: &str) -> Option<String> {
        (!self.lines.is_empty()).then(|| format!("# {comment}\n{}", self.lines))
    }
}

/// The unit that turns what no other file can set.
const UNIT: &str = "punctual-tune.service";
/// The same for what needs a network: a route, a device.
const NETWORK_UNIT: &str = "punctual-tune-network.service";

/// The files. Numbers of interrupts and threads change with a reboot, and a driver of frequencies may be a module that
/// comes later than tmpfiles: their knobs, and what no other file can hold, are turned by a unit that calls
/// `punctual tune`.
#[must_use]
pub fn files(asked: &Persistence<'_>) -> Vec<PersistentFile> {
    let mut sysctl = String::new();
    let (mut tmpfiles, mut udev) = (String::new(), String::new());
    let (mut unit, mut network): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let is_set = |it: &Change| {
        matches!(
            it.setting,
            Setting::Partition { .. } | Setting::Cpuset { .. }
        )
    };
    let has_partition = asked.kept.iter().any(is_set);
    for kept in asked.kept {
        let (path, value) = match &kept.setting {
            Setting::File { path } | Setting::NetworkFile { path, .. } => {
                (path.as_str(), kept.value.as_str())
            }
            // The path of the one that is in force, and its number.
            Setting::Pair { .. } => kept.value.split_once(' ').unwrap_or_default(),
            _ => ("", ""),
        };
        // The parts of a partition are made again together: without its sets, the scheduler must
        // go on to balance over all CPUs.
        let is_part = has_partition && kept.knob == Knob::Finding(FindingId::IsolatedCpus);
        let written = if is_part || !is_plain(path, "") || !is_plain(value, " ") {
            None
        } else if let Some(name) = path.strip_prefix("/proc/sys/") {
            // With slashes the name of an interface may have dots.
            writeln!(sysctl, "{name} = {value}").ok()
        } else if let Some(rule) = rule(path, value) {
            writeln!(udev, "{rule}").ok()
        } else if path.starts_with("/sys/") && !path.contains("/cpufreq/") {
            writeln!(tmpfiles, "w {path} - - - - {value}").ok()
        } else {
            None
        };
        let words = match &kept.setting {
            Setting::RouteMetric { .. } | Setting::Neighbour { .. } | Setting::Napi { .. } => {
                &mut network
            }
            _ => &mut unit,
        };
        let word = kept.argument();
        if written.is_none() && !words.contains(&word) {
            words.push(word);
        }
    }
    let (mut service, mut network_service) = (String::new(), String::new());
    let mut units = Vec::new();
    if !unit.is_empty() {
        let (after, again) = ("", "");
        service = unit_of(asked, &unit, &flags(asked, has_partition), after, again);
        units.push(UNIT);
    }
    if !network.is_empty() {
        // A route or a device may come later than what the system calls online.
        let after = "Wants=network-online.target\nAfter=network-online.target\n";
        let again = "Restart=on-failure\nRestartSec=5s\n";
        network_service = unit_of(asked, &network, "", after, again);
        units.push(NETWORK_UNIT);
    }
    let wants = match units.is_empty() {
        true => String::new(),
        false => format!("[Unit]\nWants={}\n", units.join(" ")),
    };
    let file = |name, place, lines| PersistentFile { name, place, lines };
    vec![
        file(
            "90-punctual.sysctl.conf",
            "/etc/sysctl.d/90-punctual.conf",
            sysctl,
        ),
        file(
            "punctual.tmpfiles.conf",
            "/etc/tmpfiles.d/punctual.conf",
            tmpfiles,
        ),
        file(
            "90-punctual.rules",
            "/etc/udev/rules.d/90-punctual.rules",
            udev,
        ),
        file(UNIT, "/etc/systemd/system/punctual-tune.service", service),
        file(
            NETWORK_UNIT,
            "/etc/systemd/system/punctual-tune-network.service",
            network_service,
        ),
        file(
            "punctual.multi-user.conf",
            "/etc/systemd/system/multi-user.target.d/punctual.conf",
            wants,
        ),
    ]
}

/// Whether a text needs no quotes in any of these files; none of them is empty.
fn is_plain(text: &str, more: &str) -> bool {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || "-_.,:/+@".contains(c) || more.contains(c);
    // A value that ends with a space would lose it.
    !text.is_empty() && text.trim() == text && text.chars().all(is_plain)
}

/// The rule of udev for an attribute of a device that may appear later than the other files are
/// read: a network interface, and what is on a bus. A renamed interface has its name only after
/// the event `move`.
fn rule(path: &str, value: &str) -> Option<String> {
    let physical = path.strip_prefix("/sys/devices/");
    let (subsystem, rest) = match path.strip_prefix("/sys/class/") {
        Some(rest) => rest.split_once('/')?,
        // A network interface by the bus that its card is on.
        None if physical.is_some() => ("net", physical?.split_once("/net/")?.1),
        None => {
            let (bus, rest) = path.strip_prefix("/sys/bus/")?.split_once('/')?;
            (bus, rest.strip_prefix("devices/")?)
        }
    };
    let (device, attribute) = rest.split_once('/')?;
    Some(format!(
        "ACTION==\"add|move\", SUBSYSTEM==\"{subsystem}\", KERNEL==\"{device}\", \
         ATTR{{{attribute}}}=\"{value}\""
    ))
}

/// What a finding's changes are made for.
fn flags(asked: &Persistence<'_>, has_partition: bool) -> String {
    let mut flags = String::new();
    if !asked.cpus.is_empty() {
        let _ = write!(flags, " -a {}", cpu_list(asked.cpus));
    }
    if let Some(priority) = asked.priority {
        let _ = write!(flags, " -p {priority}");
    }
    if has_partition {
        flags.push_str(" --partition");
    }
    flags
}

fn unit_of(
    asked: &Persistence<'_>,
    knobs: &[String],
    flags: &str,
    after: &str,
    again: &str,
) -> String {
    let program = quoted(asked.program);
    let state = quoted(&asked.state.display().to_string());
    let knobs: Vec<String> = knobs.iter().map(|knob| quoted(knob)).collect();
    let knobs = knobs.join(" ");
    // Without ExecStop: a shutdown needs no restore, which would remove these files too.
    format!(
        "[Unit]\nDescription=Settings for real-time work\n{after}\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\n{again}\
         ExecStart={program} tune apply{flags} --state {state} {knobs}\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

/// A word of a command line of systemd.
fn quoted(word: &str) -> String {
    if is_plain(word, "") {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Specifiers and variables.
            '%' | '$' => quoted.extend([c, c]),
            // A line ends here: what can't be in a path that is used.
            c if c.is_control() => quoted.push('?'),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
