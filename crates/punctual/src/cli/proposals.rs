//! `tune plan --from RUN` and `tune apply --from RUN`: what the bills of a run ask for.

use std::path::Path;
use std::process::ExitCode;

use punctual_machine::tune::changes_of;
use punctual_machine::{CheckRequest, Root, check};
use punctual_record::Run;
use punctual_record::finding::{Check, FindingId, StateKind};
use punctual_record::remedy::BillsAsk;
use punctual_record::tuning::Change;
use punctual_report::proposals::proposals;

use super::check::online;
use super::failure::Failure;
use super::flags::KnobFlags;
use super::looking::read;
use super::out;
use super::tune;

/// What a run asks for on this machine.
struct Asked {
    run: Run,
    ask: BillsAsk,
    check: Check,
}

impl Asked {
    fn read(flags: &KnobFlags, place: &Path) -> Result<Self, Failure> {
        let run = read(place)?;
        let shown = place.display();
        if run.explanation.is_none() {
            return Err(Failure::usage(format!(
                "--from {shown}: this run has no bills, it was not traced: measure again without \
                 --no-explain"
            )));
        }
        let root = Root::live();
        let check = check(&root, &request(flags, &run, &root, place)?);
        let Some(ask) = BillsAsk::of(&run, Some(&check)) else {
            return Err(Failure::usage(format!("--from {shown}: no bills")));
        };
        Ok(Self { run, ask, check })
    }

    /// The machine that the run was made on, if it is not this one.
    fn elsewhere(&self) -> Option<&str> {
        let host = self.run.system.hostname.as_str();
        (host != self.check.hostname && !host.is_empty()).then_some(host)
    }

    /// What can be changed at run time: the bad knobs, the dearest first.
    fn changes(&self) -> Vec<Change> {
        let is_bad = |knob: &FindingId| {
            let finding = self.check.finding(*knob);
            finding.is_some_and(|finding| finding.state.kind() == StateKind::Bad)
        };
        let knobs: Vec<FindingId> = self.ask.knobs().into_iter().filter(is_bad).collect();
        if knobs.is_empty() {
            // Without a name it would be all.
            return Vec::new();
        }
        let mut changes = changes_of(&self.check, &knobs);
        changes.sort_by_key(|change| {
            knobs
                .iter()
                .position(|knob| knob.name() == change.knob.name())
        });
        changes
    }

    fn print(&self, place: &Path) {
        let place = place.display().to_string();
        let style = out::style();
        out::print(&proposals(
            &self.run,
            &self.ask,
            &self.check,
            &place,
            &style,
        ));
    }
}

/// What to check for: the CPUs of `-a`, or else those of the run.
fn request(
    flags: &KnobFlags,
    run: &Run,
    root: &Root,
    place: &Path,
) -> Result<CheckRequest, Failure> {
    let priority = match (flags.priority, run.request.priority) {
        (Some(priority), _) => priority,
        (None, 0) => Check::PRIORITY,
        (None, priority) => priority,
    };
    if let Some(cpus) = tune::named_cpus(root, flags.affinity.as_ref())? {
        return Ok(CheckRequest {
            cpus: Some(cpus),
            priority,
            ..CheckRequest::default()
        });
    }
    let mut cpus = run.request.cpus.clone();
    if let Some(watch) = &run.watch {
        // The threads of a program run where they may.
        let of_threads = run.threads.iter().take(watch.threads.len());
        cpus.extend(of_threads.filter_map(|thread| thread.cpu));
    }
    let here = online(root);
    if let Some(cpu) = cpus.iter().find(|cpu| !here.contains(cpu)) {
        return Err(Failure::usage(format!(
            "--from {}: the run was made on CPU {cpu}, which is not online here: name CPUs with -a",
            place.display()
        )));
    }
    Ok(match cpus.is_empty() {
        true => CheckRequest {
            priority,
            ..CheckRequest::default()
        },
        false => CheckRequest::of_probes(root, &cpus, priority),
    })
}

/// `plan --from`: prints what the bills of a run ask for.
///
/// # Errors
/// A run that can't be read or has no bills; CPUs that the machine doesn't have.
pub(super) fn plan(flags: &KnobFlags, place: &Path) -> Result<ExitCode, Failure> {
    let asked = Asked::read(flags, place)?;
    if let Some(host) = asked.elsewhere() {
        let here = &asked.check.hostname;
        out::complain(&format!(
            "--from: the run was made on {host}; the findings are those of {here}"
        ));
    }
    asked.print(place);
    let count = asked.changes().len();
    let place = place.display();
    out::print(&match count {
        0 => "\nNothing of this can be changed on the running machine.\n".to_owned(),
        1 => format!("\n1 setting can be changed now: punctual tune apply --from {place}\n"),
        _ => format!("\n{count} settings can be changed now: punctual tune apply --from {place}\n"),
    });
    Ok(ExitCode::SUCCESS)
}

/// `apply --from`: changes what is bad and can be changed at run time.
///
/// # Errors
/// As [`plan`]; a run of another machine; what can't be changed.
pub(super) fn apply(flags: &KnobFlags, place: &Path) -> Result<ExitCode, Failure> {
    let asked = Asked::read(flags, place)?;
    if let Some(host) = asked.elsewhere() {
        return Err(Failure::usage(format!(
            "--from {}: the run was made on {host}: apply it there",
            place.display()
        )));
    }
    let changes = asked.changes();
    if changes.is_empty() {
        asked.print(place);
        out::print("\nNothing was changed: nothing of this can be on the running machine.\n");
        return Ok(ExitCode::SUCCESS);
    }
    tune::make(flags, &changes).map(ExitCode::from)
}
