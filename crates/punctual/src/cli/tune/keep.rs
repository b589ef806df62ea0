//! `tune apply --keep`: stays, so that threads which appear later get their settings, and what
//! holds only while a process has it open is held.

use std::collections::HashSet;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use punctual_machine::Root;
use punctual_machine::tune::{Journal, apply_accepted, changes_of};
use punctual_record::finding::{Check, FindingFix, FindingId, StateKind};
use punctual_record::proc_stat::Stat;
use punctual_record::tuning::Setting;
use punctual_report::tuning;

use super::super::failure::Failure;
use super::super::flags::KnobFlags;
use super::super::{knobs, out};
use super::{check_named, found, left_as_it_is, make, partition};
use crate::conduct::Signals;
use crate::system::dma_latency::DmaLatency;

/// How often new threads are looked for.
const PERIOD: Duration = Duration::from_secs(1);
/// How soon a signal is noticed.
const STEP: Duration = Duration::from_millis(100);

/// Applies, and stays until a signal comes. The settings are left as they are then.
pub(super) fn run(flags: &KnobFlags) -> Result<ExitCode, Failure> {
    knobs::refuse_settings(&flags.knobs, "--keep")?;
    let named = knobs::findings(&flags.knobs);
    let signals = Signals::listen().map_err(Failure::setup)?;
    let root = Root::live();
    let mut known = KernelThreads::default();
    // Before the check: a thread that appears meanwhile is a new one.
    known.look_for_new(&root);
    let found = found(flags.affinity.as_ref(), flags.priority)?;
    let limit = latency_limit(&found, &named);
    let mut changes = changes_of(&found, &named);
    if limit.is_none() && !flags.partition {
        check_named(&found, &changes, &named)?;
    }
    changes.extend(partition(&found, flags)?);
    // Others may tune while this process waits: the journal is closed then.
    let status = match make(flags, &changes) {
        Ok(status) => status,
        Err(failure) if !flags.knobs.is_empty() => return Err(failure),
        Err(failure) => {
            // It is there for what can be changed: the latency, and threads that appear later.
            out::complain(&failure.line);
            0
        }
    };
    let _held = match limit {
        Some(limit) => Some(DmaLatency::hold(limit).map_err(Failure::setup)?),
        None => None,
    };
    out::print(&tuning::keeping(limit));
    let mut is_pending = false;
    let mut complained = None;
    // What the kernel refused is not tried each second.
    let mut refused = Vec::new();
    while signals.end().is_none() {
        let mut waited = Duration::ZERO;
        while waited < PERIOD && signals.end().is_none() {
            sleep(STEP);
            waited += STEP;
        }
        is_pending |= known.look_for_new(&root);
        if !is_pending {
            continue;
        }
        match apply_to_new(flags, &mut refused) {
            Ok(()) => (is_pending, complained) = (false, None),
            // Another punctual has the journal, or a thread ended: tried again.
            Err(failure) if complained.as_ref() != Some(&failure.line) => {
                out::complain(&failure.line);
                complained = Some(failure.line);
            }
            Err(_) => {}
        }
    }
    Ok(ExitCode::from(status))
}

/// Changes the threads that the journal does not have. One that another program changed since is
/// left alone.
fn apply_to_new(flags: &KnobFlags, refused: &mut Vec<Setting>) -> Result<(), Failure> {
    let found = found(flags.affinity.as_ref(), flags.priority)?;
    let mut changes = changes_of(&found, &knobs::findings(&flags.knobs));
    let is_of_thread = |setting: &Setting| {
        matches!(
            setting,
            Setting::Scheduling { .. } | Setting::Affinity { .. }
        )
    };
    changes.retain(|change| is_of_thread(&change.setting) && !refused.contains(&change.setting));
    if changes.is_empty() {
        return Ok(());
    }
    let mut journal = Journal::open(&flags.state.state).map_err(Failure::setup)?;
    changes.retain(|change| journal.entry(&change.setting).is_none());
    let (changed, not_changed) = apply_accepted(&mut journal, &changes).map_err(Failure::setup)?;
    for (change, error) in not_changed {
        out::complain(&left_as_it_is(change, &error));
        refused.push(change.setting.clone());
    }
    if !changed.is_empty() {
        let place = journal.path().display().to_string();
        out::print(&tuning::changed(&changed, &place, &out::style()));
    }
    Ok(())
}

/// The limit that a bad or named finding asks to hold.
fn latency_limit(found: &Check, named: &[FindingId]) -> Option<i32> {
    let is_wanted =
        |state: StateKind, id| named.is_empty() && state == StateKind::Bad || named.contains(&id);
    let findings = found.findings.iter();
    findings
        .filter(|finding| is_wanted(finding.state.kind(), finding.id))
        .flat_map(|finding| &finding.fixes)
        .find_map(|fix| match fix {
            FindingFix::HoldDmaLatency { limit_us } => i32::try_from(*limit_us).ok(),
            _ => None,
        })
}

/// The kernel's threads that were there at the last look, without workers: these come and go.
#[derive(Debug, Default)]
struct KernelThreads {
    tids: HashSet<usize>,
}

impl KernelThreads {
    /// Whether there are new ones.
    fn look_for_new(&mut self, root: &Root) -> bool {
        let now: HashSet<usize> = root.numbered("/proc", "").into_iter().collect();
        let is_new = |tid: &usize| {
            let line = root.text(&format!("/proc/{tid}/stat")).unwrap_or_default();
            Stat::parse(&line)
                .is_some_and(|stat| stat.is_of_kernel() && !stat.name.starts_with("kworker/"))
        };
        let new = now.difference(&self.tids).any(is_new);
        self.tids = now;
        new
    }
}
