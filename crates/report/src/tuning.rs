//! The words of `tune`: what is planned, changed, restored, and how it is now.

use std::fmt::Write as _;

use punctual_record::tuning::{
    Applied, BootParameter, BootState, Change, Entry, NapiMode, Neighbour, NetworkDevice, Restored,
    Route, RouteMetric, Setting,
};

use crate::findings::{chrt, quoted, taskset, write};
use crate::style::{Style, Tone};

const GONE: &str = "its object no longer exists";
const REBOOTED: &str = "undone by a reboot";

/// The commands for a set of cgroup v1: tasks that may run anywhere are moved into the set of the
/// others, or back.
fn cpuset(folder: &str, is_of_others: bool, value: &str) -> String {
    let top = folder.rsplit_once('/').map_or("", |(top, _)| top);
    let moved = |from: &str, to: &str| {
        let (from, to) = (
            quoted(&format!("{from}/tasks")),
            quoted(&format!("{to}/tasks")),
        );
        format!("for task in $(cat {from}); do echo $task > {to}; done")
    };
    if value == "absent" {
        return format!("{}; rmdir {}", moved(folder, top), quoted(folder));
    }
    let file = |name: &str| format!("{folder}/cpuset.{name}");
    let list = write(&file("cpus"), value);
    let from = quoted(&format!("{top}/cpuset.mems"));
    let nodes = format!("cat {from} > {}", quoted(&file("mems")));
    let rest = if is_of_others {
        moved(top, folder)
    } else {
        let exclusive = write(&file("cpu_exclusive"), "1");
        format!("{exclusive} && {}", write(&file("sched_load_balance"), "0"))
    };
    format!("mkdir {} && {list} && {nodes} && {rest}", quoted(folder))
}

/// A change as a command to copy.
#[must_use]
pub fn command(setting: &Setting, value: &str) -> String {
    match setting {
        Setting::File { path } | Setting::NetworkFile { path, .. } => write(path, value),
        Setting::Pair { .. } => match value.split_once(' ') {
            Some((path, number)) => write(path, number),
            None => String::new(),
        },
        Setting::Scheduling { thread } => {
            let mut numbers = value.split_whitespace();
            if let ["6", _, _, runtime, deadline, period] = numbers.clone().collect::<Vec<_>>()[..]
            {
                let flags = format!(
                    "-d --sched-runtime {runtime} --sched-deadline {deadline} --sched-period {period}"
                );
                return chrt(&flags, "0", thread.tid, &thread.name);
            }
            let letter = match numbers.next() {
                Some("1") => "-f",
                Some("2") => "-r",
                Some("3") => "-b",
                Some("5") => "-i",
                _ => "-o",
            };
            let priority = numbers.next().unwrap_or("0");
            chrt(letter, priority, thread.tid, &thread.name)
        }
        Setting::Affinity { thread } => taskset(value, thread.tid, &thread.name),
        Setting::Partition { folder } if value == "absent" => format!("rmdir {}", quoted(folder)),
        Setting::Partition { folder } => {
            let list = write(&format!("{folder}/cpuset.cpus"), value);
            let kind = write(&format!("{folder}/cpuset.cpus.partition"), "isolated");
            format!("mkdir {} && {list} && {kind}", quoted(folder))
        }
        Setting::Cpuset {
            folder,
            is_of_others,
        } => cpuset(folder, *is_of_others, value),
        Setting::BootFile { path, update } => match update {
            Some(program) => format!("{} && {}", content(path, value), quoted(program)),
            None => content(path, value),
        },
        Setting::ConfigFile { path } => content(path, value),
        Setting::RouteMetric { route, metric } => metric_command(route, *metric, value),
        Setting::Neighbour { neighbour } => neighbour_command(neighbour, value),
        Setting::Napi { device } => napi_command(device, value),
        Setting::KernelArguments { grubby, parameters } => {
            let flag = if value == "with" {
                "args"
            } else {
                "remove-args"
            };
            format!(
                "{} --update-kernel=ALL --{flag}={}",
                quoted(grubby),
                quoted(parameters)
            )
        }
    }
}

/// The command that gives a route a metric: everything else is written as `ip` shows it.
fn metric_command(route: &Route, metric: RouteMetric, value: &str) -> String {
    let family = match route.destination.contains(':') {
        true => "-6 ",
        false => "",
    };
    let table = match route.table {
        254 => String::new(),
        table => format!(" table {table}"),
    };
    let name = metric.name();
    let (word, is_locked) = match value.split_once(' ') {
        Some((word, _)) => (word, true),
        None => (value, false),
    };
    let ends = match (metric, word) {
        (_, "absent") => String::new(),
        // `ip` locks it by itself.
        (RouteMetric::RtoMin, word) => format!(" {name} {word}ms"),
        (_, word) if is_locked => format!(" {name} lock {word}"),
        (_, word) => format!(" {name} {word}"),
    };
    format!(
        "ip {family}route change $(ip {family}route show exact {}{table} | sed 's/ {name} [lock \
         ]*[0-9a-z]*//'){table}{ends}",
        quoted(&route.destination)
    )
}

/// The command that gives a neighbour its entry.
fn neighbour_command(neighbour: &Neighbour, value: &str) -> String {
    let (address, device) = (quoted(&neighbour.address), quoted(&neighbour.device));
    match value.split_once(' ') {
        Some((_, link)) => {
            format!("ip neigh replace {address} lladdr {link} nud permanent dev {device}")
        }
        None => format!("ip neigh change {address} dev {device} nud stale"),
    }
}

/// The commands that switch a device's threads on or off, and give them their policy.
fn napi_command(device: &NetworkDevice, value: &str) -> String {
    let mut words = value.split_whitespace();
    let mode = match words.next() {
        Some(NapiMode::THREADS) => "1",
        _ => "0",
    };
    let mut commands = vec![write(
        &format!("/sys/class/net/{}/threaded", device.name),
        mode,
    )];
    for word in words {
        let (threads, policy) = match word.split_once('=') {
            Some((id, policy)) => (format!("^napi/{}-{id}$", device.name), policy),
            None => (format!("^napi/{}-", device.name), word),
        };
        let threads = quoted(&threads);
        let (name, number) = policy.split_once(':').unwrap_or((policy, "0"));
        let is_timed = matches!(name, "fifo" | "rr");
        let priority = if is_timed { number } else { "0" };
        commands.push(format!(
            "for tid in $(pgrep {threads}); do chrt --{name} -p {priority} $tid; done"
        ));
        if number != "0" && !is_timed {
            commands.push(format!("renice -n {number} $(pgrep {threads})"));
        }
    }
    commands.join(" && ")
}

/// Whether each terminal shows a text as it is.
fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// A text as the format of `printf` that prints it (POSIX, printf and "File Format Notation").
fn escaped(text: &str) -> String {
    let mut format = String::new();
    for byte in text.bytes() {
        match byte {
            b'\n' => format += "\\n",
            b'\t' => format += "\\t",
            b'\\' => format += "\\\\",
            b'%' => format += "%%",
            // bash takes a format that begins so for an option.
            b'-' if format.is_empty() => format += "\\055",
            b' '..=b'~' => format.push(char::from(byte)),
            other => {
                let _ = write!(format, "\\{other:03o}");
            }
        }
    }
    format
}

/// The command that gives a file its content.
fn content(path: &str, value: &str) -> String {
    let path = match is_printable(path) {
        true => quoted(path),
        false => format!("\"$(printf {})\"", quoted(&escaped(path))),
    };
    match value.split_once(':') {
        None => format!("rm {path}"),
        Some(("text", text)) if is_printable(text) => {
            format!("printf %s {} > {path}", quoted(text))
        }
        // A terminal shows no control characters, and not every one has letters beyond ASCII.
        Some(("text", text)) => format!("printf {} > {path}", quoted(&escaped(text))),
        Some((_, coded)) => format!("echo {} | base64 -d > {path}", quoted(coded)),
    }
}

/// Boot parameters that are asked for, and how they would be configured.
#[must_use]
pub fn boot_plan(
    parameters: &[BootParameter],
    changes: Result<&[(Setting, String)], &str>,
    style: &Style,
) -> String {
    if parameters.is_empty() {
        return String::new();
    }
    let title = "At the next boot, with punctual tune apply --boot:";
    let mut out = format!("\n{}\n", style.paint(Tone::Bold, title));
    for BootParameter { knob, parameter } in parameters {
        let line = format!("  {knob}: {parameter}");
        let _ = writeln!(out, "{}", style.paint(Tone::Plain, &line));
    }
    match changes {
        Ok([]) => out += "  The boot loader has them already: reboot.\n",
        Ok(changes) => {
            for (setting, value) in changes {
                let line = command(setting, value);
                let _ = writeln!(out, "  {}", style.paint(Tone::Plain, &line));
            }
        }
        Err(why) => {
            let _ = writeln!(out, "  {}", style.paint(Tone::Unsure, why));
        }
    }
    out
}

/// What was configured for the next boot.
#[must_use]
pub fn configured(
    parameters: &[BootParameter],
    changes: &[(Setting, String)],
    journal: &str,
    style: &Style,
) -> String {
    if parameters.is_empty() {
        return "Nothing was changed: no finding asks for a boot parameter that the boot loader \
                lacks.\n"
            .to_owned();
    }
    let mut out = String::new();
    for BootParameter { knob, parameter } in parameters {
        let line = format!("{knob}: {parameter}");
        let _ = writeln!(out, "{}", style.paint(Tone::Plain, &line));
    }
    let places: Vec<String> = changes.iter().map(|(it, _)| it.to_string()).collect();
    let _ = writeln!(
        out,
        "Written to {}; the original is in {}. Reboot, then run punctual tune status.",
        style.paint(Tone::Plain, &places.join(", ")),
        style.paint(Tone::Plain, journal)
    );
    out
}

fn boot_states(states: &[(String, BootState)]) -> (Tone, String) {
    let word = |state| match state {
        BootState::InForce => "in force",
        BootState::NotYet => "not in force yet: reboot",
        BootState::Dropped => "the boot loader dropped it",
        BootState::Ignored => "on the command line, but the kernel ignores it",
    };
    let is = |wanted| states.iter().any(|(_, state)| *state == wanted);
    let tone = if is(BootState::Dropped) || is(BootState::Ignored) {
        Tone::Bad
    } else if is(BootState::NotYet) {
        Tone::Unsure
    } else {
        Tone::Good
    };
    let all = states
        .iter()
        .map(|(parameter, state)| format!("{parameter} ({})", word(*state)));
    (tone, all.collect::<Vec<_>>().join("; "))
}

/// A plan: each change as a command, under its knob.
#[must_use]
pub fn plan(changes: &[Change], style: &Style) -> String {
    if changes.is_empty() {
        return "Nothing to change: no bad finding has a fix at run time.\n".to_owned();
    }
    commands(changes, style)
}

fn commands<'c>(changes: impl IntoIterator<Item = &'c Change>, style: &Style) -> String {
    let mut out = String::new();
    let mut knob = None;
    for change in changes {
        if knob != Some(&change.knob) {
            knob = Some(&change.knob);
            let _ = writeln!(out, "{}", style.paint(Tone::Bold, change.knob.name()));
        }
        let line = command(&change.setting, &change.value);
        let _ = writeln!(out, "  {}", style.paint(Tone::Plain, &line));
    }
    out
}

/// What was changed.
#[must_use]
pub fn changed(changes: &[&Change], journal: &str, style: &Style) -> String {
    if changes.is_empty() {
        return "Nothing was changed: every setting has its value already.\n".to_owned();
    }
    let mut out = commands(changes.iter().copied(), style);
    let _ = writeln!(
        out,
        "Changed {} settings; the originals are in {}; `punctual tune restore` restores them.",
        changes.len(),
        style.paint(Tone::Plain, journal)
    );
    out
}

/// What `persist` wrote: files, each with whether it was installed or removed, and the knobs that they
/// make again.
#[must_use]
pub fn persisted(
    files: &[(Setting, bool)],
    knobs: &[String],
    journal: &str,
    style: &Style,
) -> String {
    if knobs.is_empty() {
        return "Nothing was installed: punctual tune apply has changed nothing that is in force.\n"
            .to_owned();
    }
    let knobs = style.paint(Tone::Bold, &knobs.join(", "));
    if files.is_empty() {
        return format!("{knobs}: the files have it already.\n");
    }
    let mut out = format!("{knobs}, at each boot, by:\n");
    for (file, is_needed) in files {
        let file = style.paint(Tone::Plain, &file.to_string());
        let gone = if *is_needed { "" } else { ": removed" };
        let _ = writeln!(out, "  {file}{gone}");
    }
    let _ = writeln!(
        out,
        "What was there before is in {}; `punctual tune restore` restores it.",
        style.paint(Tone::Plain, journal)
    );
    out
}

/// That `apply --keep` stays, and what it holds.
#[must_use]
pub fn keeping(latency_limit_us: Option<i32>) -> String {
    let held = latency_limit_us.map_or(String::new(), |limit| {
        format!("/dev/cpu_dma_latency is held at {limit} \u{b5}s. ")
    });
    format!("{held}Waiting for new threads; SIGTERM or SIGINT ends this, the settings stay.\n")
}

/// What there is to say of a change.
fn line(entry: &Entry, tone: Tone, words: &str, style: &Style) -> String {
    let name = format!("{}: {}: ", entry.knob, entry.setting);
    style.paint(Tone::Plain, &name) + &style.paint(tone, words) + "\n"
}

/// How the changed settings are now.
#[must_use]
pub fn status(entries: &[(&Entry, Applied)], style: &Style) -> String {
    if entries.is_empty() {
        return "Nothing is changed.\n".to_owned();
    }
    let mut out = String::new();
    for (entry, applied) in entries {
        let (tone, words) = match applied {
            Applied::Ours(now) => (
                Tone::Good,
                format!(
                    "{} (was {})",
                    entry.setting.shown(now),
                    entry.setting.shown(&entry.original)
                ),
            ),
            Applied::Configured(states) => boot_states(states),
            Applied::Original => (
                Tone::Plain,
                format!("{}, the original", entry.setting.shown(&entry.original)),
            ),
            Applied::Changed(now) => (
                Tone::Bad,
                format!(
                    "{}: changed by another program (ours {}, original {})",
                    entry.setting.shown(now),
                    entry.setting.shown(&entry.value),
                    entry.setting.shown(&entry.original)
                ),
            ),
            Applied::Gone => (Tone::Dim, GONE.to_owned()),
            Applied::Rebooted => (Tone::Dim, REBOOTED.to_owned()),
            Applied::Unreadable(error) => (Tone::Unsure, format!("can't be read: {error}")),
        };
        out += &line(entry, tone, &words, style);
    }
    out
}

/// What a restore did, or would do.
#[must_use]
pub fn restored(results: &[(Entry, Restored)], dry_run: bool, style: &Style) -> String {
    if results.is_empty() {
        return "Nothing to restore.\n".to_owned();
    }
    let mut out = String::new();
    for (entry, result) in results {
        let (tone, words) = match result {
            Restored::Written if dry_run => (Tone::Plain, command(&entry.setting, &entry.original)),
            Restored::Written => {
                let original = entry.setting.shown(&entry.original);
                let reboot = match &entry.setting {
                    Setting::ConfigFile { .. } if entry.knob != entry.setting.to_string() => {
                        "; what it set at an earlier boot stays until the next one"
                    }
                    setting if setting.is_of_boot_loader() => "; reboot",
                    _ => "",
                };
                (Tone::Good, format!("restored to {original}{reboot}"))
            }
            Restored::Already => (
                Tone::Plain,
                format!("{} already", entry.setting.shown(&entry.original)),
            ),
            Restored::Conflict(now) => (
                Tone::Bad,
                format!(
                    "left at {}, which another program set (ours {}, original {}); --force \
                     restores it",
                    entry.setting.shown(now),
                    entry.setting.shown(&entry.value),
                    entry.setting.shown(&entry.original)
                ),
            ),
            Restored::Gone => (Tone::Dim, GONE.to_owned()),
            Restored::Rebooted => (Tone::Dim, REBOOTED.to_owned()),
            Restored::Failed(error) => (Tone::Bad, format!("can't be restored: {error}")),
        };
        out += &line(entry, tone, &words, style);
    }
    out
}

/// That a punctual which was killed left settings changed; none if there is none.
#[must_use]
pub fn left_over(entries: &[Entry]) -> Option<String> {
    let first = entries.first()?;
    let more = match entries.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "warning: a punctual that was killed left {} changed (it was {}){more}; run punctual tune \
         restore",
        first.setting,
        first.setting.shown(&first.original)
    ))
}

/// That no boot loader is known here, and what to do instead.
#[must_use]
pub fn no_boot_loader(parameters: &[BootParameter]) -> String {
    let all: Vec<&str> = parameters.iter().map(|it| it.parameter.as_str()).collect();
    format!(
        "no boot loader that punctual can configure (GRUB of Debian or Ubuntu, grubby, \
         u-boot-menu, Raspberry Pi): add to the kernel's command line: {}",
        all.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use punctual_record::tuning::ThreadIdentity;

    use super::*;

    #[test]
    fn a_set_of_cgroup_v1_is_made_and_removed_by_commands() {
        let made = |name: &str, is_of_others, value: &str| {
            let folder = format!("/cg/{name}");
            let setting = Setting::Cpuset {
                folder,
                is_of_others,
            };
            command(&setting, value)
        };
        assert_eq!(
            made("punctual", false, "2-3"),
            "mkdir /cg/punctual && echo 2-3 > /cg/punctual/cpuset.cpus && cat /cg/cpuset.mems > \
             /cg/punctual/cpuset.mems && echo 1 > /cg/punctual/cpuset.cpu_exclusive && echo 0 > \
             /cg/punctual/cpuset.sched_load_balance"
        );
        assert_eq!(
            made("others", true, "0-1"),
            "mkdir /cg/others && echo 0-1 > /cg/others/cpuset.cpus && cat /cg/cpuset.mems > \
             /cg/others/cpuset.mems && for task in $(cat /cg/tasks); do echo $task > \
             /cg/others/tasks; done"
        );
        assert_eq!(
            made("others", true, "absent"),
            "for task in $(cat /cg/others/tasks); do echo $task > /cg/tasks; done; rmdir /cg/others"
        );
    }

    #[test]
    fn a_policy_is_restored_in_the_words_of_chrt() {
        for (original, words) in [
            ("0 0 0", "OTHER"),
            ("0 0 -5", "OTHER -5"),
            ("1 90 0", "FIFO 90"),
            ("2 7 0", "RR 7"),
            ("3 0 4", "BATCH 4"),
            ("5 0 0", "IDLE"),
            ("6 0 0 100 200 300", "DEADLINE 100 200 300"),
        ] {
            let thread = ThreadIdentity {
                tid: 7,
                start: 1,
                name: "app".to_owned(),
            };
            let entry = Entry {
                boot: String::new(),
                knob: "scheduling@7".to_owned(),
                setting: Setting::Scheduling { thread },
                original: original.to_owned(),
                value: "1 1 0".to_owned(),
                holder: None,
            };
            let warning = left_over(std::slice::from_ref(&entry)).expect("a warning");
            assert!(warning.contains(&format!("(it was {words})")), "{warning}");
            let text = restored(&[(entry, Restored::Written)], false, &Style::plain());
            assert!(text.ends_with(&format!("restored to {words}\n")), "{text}");
        }
    }
}
