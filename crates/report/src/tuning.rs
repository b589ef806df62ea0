//! The words of `tune`: what is planned, changed, restored, and how it is now.

use std::fmt::Write as _;

use punctual_record::tuning::{Applied, Change, Entry, Restored, Setting};

use crate::findings::{chrt, taskset, write};
use crate::style::{Style, Tone};

const GONE: &str = "its object no longer exists";
const REBOOTED: &str = "undone by a reboot";

/// A change as a command to copy.
#[must_use]
pub fn command(setting: &Setting, value: &str) -> String {
    match setting {
        Setting::File { path } => write(path, value),
        Setting::Pair { .. } => match value.split_once(' ') {
            Some((path, number)) => write(path, number),
            None => String::new(),
        },
        Setting::Scheduling { thread } => {
            let mut numbers = value.split_whitespace();
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
    }
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
            Applied::Ours(now) => (Tone::Good, format!("{now} (was {})", entry.original)),
            Applied::Original => (Tone::Plain, format!("{}, the original", entry.original)),
            Applied::Changed(now) => (
                Tone::Bad,
                format!(
                    "{now}: changed by another program (ours {}, original {})",
                    entry.value, entry.original
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
            Restored::Written => (Tone::Good, format!("restored to {}", entry.original)),
            Restored::Already => (Tone::Plain, format!("{} already", entry.original)),
            Restored::Conflict(now) => (
                Tone::Bad,
                format!(
                    "left at {now}, which another program set (ours {}, original {}); --force \
                     restores it",
                    entry.value, entry.original
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
        first.setting, first.original
    ))
}
