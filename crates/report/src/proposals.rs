//! What the bills of a run ask for, in words: the knobs by the time that their causes cost, and
//! what no setting helps against.

use punctual_record::finding::{Check, Finding, FindingFix, FindingId, StateKind};
use punctual_record::remedy::{BillsAsk, CauseCost, Obstacle};
use punctual_record::{Run, cpu_list};

use crate::explain::name;
use crate::findings::{command, push_toned, sentence, text};
use crate::style::{Style, Tone};
use crate::words;

/// Causes that are named with a knob.
const CAUSES: usize = 4;
/// Commands that are shown of a knob.
const COMMANDS: usize = 4;

/// What the bills of a run ask for, on a machine with these findings. `place`: where the run is.
#[must_use]
pub fn proposals(run: &Run, ask: &BillsAsk, check: &Check, place: &str, style: &Style) -> String {
    let mut out = String::new();
    let wake_ups = match (ask.of_late, run.gaps.is_some()) {
        (true, false) => words::plural(ask.bills, "late wake-up", "late wake-ups"),
        (false, false) => words::plural(ask.bills, "bill", "bills"),
        (_, true) => words::plural(ask.bills, "gap", "gaps"),
    };
    let head = format!("{place}: {wake_ups}, {}", words::duration(ask.total_ns));
    push_toned(&mut out, Tone::Bold, "", &head, style);
    push_toned(&mut out, Tone::Plain, "", &places(run, check), style);
    if ask.knobs.is_empty() && ask.obstacles.is_empty() {
        out.push_str("Its bills ask for nothing.\n");
        return out;
    }
    for (kind, title) in [
        (StateKind::Bad, "Bad here, by the time that the causes cost"),
        (
            StateKind::Information,
            "Depends on the program: changed only if it is named",
        ),
        (StateKind::Unknown, "Unknown here"),
    ] {
        section(&mut out, ask, check, kind, title, style);
    }
    obstacles(&mut out, ask, style);
    if ask.settled.count > 0 {
        out.push('\n');
        let title = "What bears on these is ok here: fixed since the run, or another reason";
        push_toned(&mut out, Tone::Bold, "", title, style);
        let cost = costs(&ask.settled);
        push_toned(&mut out, Tone::Plain, "    cost   ", &cost, style);
    }
    let fine = ask.knobs.iter().filter(|(knob, _)| is_fine(check, *knob));
    let fine: Vec<&str> = fine.map(|(knob, _)| knob.name()).collect();
    if !fine.is_empty() {
        out.push('\n');
        let list = fine.join(", ");
        let said = format!("Ok here or not applicable: {list}");
        push_toned(&mut out, Tone::Dim, "", &said, style);
    }
    out
}

/// For which CPUs, and what is left for everything else.
fn places(run: &Run, check: &Check) -> String {
    if check.cpus.is_empty() {
        return "CPUs for real-time work: none named (-a) and none isolated".to_owned();
    }
    let mut text = format!("CPUs for real-time work: {}", cpu_list(&check.cpus));
    let mut spared = run.request.cpus.clone();
    spared.retain(|cpu| !check.cpus.contains(cpu));
    spared.sort_unstable();
    spared.dedup();
    if !spared.is_empty() {
        text += &format!(
            "; CPU {} was probed too, and is left for everything else",
            cpu_list(&spared)
        );
    }
    text
}

/// Whether nothing is left to turn.
fn is_fine(check: &Check, knob: FindingId) -> bool {
    let Some(finding) = check.finding(knob) else {
        return false;
    };
    match finding.state.kind() {
        StateKind::Ok | StateKind::NotApplicable => true,
        StateKind::Information => finding.fixes.is_empty(),
        StateKind::Bad | StateKind::Unknown => false,
    }
}

fn section(
    out: &mut String,
    ask: &BillsAsk,
    check: &Check,
    kind: StateKind,
    title: &str,
    style: &Style,
) {
    let found = |(knob, cost)| Some((check.finding(knob)?, cost));
    let knobs = ask
        .knobs
        .iter()
        .filter_map(|(knob, cost)| found((*knob, cost)));
    let knobs =
        knobs.filter(|(finding, _)| finding.state.kind() == kind && !is_fine(check, finding.id));
    for (index, (finding, cost)) in knobs.enumerate() {
        if index == 0 {
            out.push('\n');
            push_toned(out, Tone::Bold, "", title, style);
        }
        push_toned(out, Tone::Plain, "  ", finding.id.name(), style);
        push_toned(out, Tone::Plain, "    cost   ", &costs(cost), style);
        let here = format!("{}: {}", text(finding.id).title, sentence(finding));
        push_toned(out, Tone::Plain, "    here   ", &here, style);
        fixes(out, finding, style);
    }
}

/// The sum, how often and the worst, with the causes.
fn costs(cost: &CauseCost) -> String {
    let named = cost.causes.iter().take(CAUSES).map(name);
    let mut causes = named.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = cost.causes.len().checked_sub(CAUSES) {
        causes += &format!(" and {more} more");
    }
    format!(
        "{}, {}, the worst {}: {causes}",
        words::duration(cost.total_ns),
        words::plural(cost.count, "time", "times"),
        words::duration(cost.worst_ns)
    )
}

/// When a fix can be made.
fn when(fix: &FindingFix) -> &'static str {
    match fix {
        FindingFix::Write { .. } | FindingFix::Scheduling { .. } | FindingFix::Affinity { .. } => {
            "    now    "
        }
        FindingFix::HoldDmaLatency { .. } => "    held   ",
        FindingFix::Boot { .. } | FindingFix::Unboot { .. } => "    boot   ",
        FindingFix::ByHand => "    hand   ",
    }
}

fn fixes(out: &mut String, finding: &Finding, style: &Style) {
    for fix in finding.fixes.iter().take(COMMANDS) {
        let said = match fix {
            FindingFix::HoldDmaLatency { .. } => {
                format!(
                    "{} (a run without --as-deployed does)",
                    command(finding, fix)
                )
            }
            _ => command(finding, fix),
        };
        push_toned(out, Tone::Plain, when(fix), &said, style);
    }
    if let Some(more @ 1..) = finding.fixes.len().checked_sub(COMMANDS) {
        let said = format!("and {more} more: punctual check --explain {}", finding.id);
        push_toned(out, Tone::Dim, "           ", &said, style);
    }
}

/// What stands in the way, and what can be done instead.
pub(crate) fn obstacle(obstacle: Obstacle) -> (&'static str, &'static str) {
    match obstacle {
        Obstacle::Host => (
            "the host of this virtual machine",
            "no setting of the guest prevents it: give the machine dedicated CPUs on its host, or \
             run on bare metal",
        ),
        Obstacle::Firmware => (
            "firmware or hardware",
            "no setting of the kernel prevents it: punctual measure hardware counts such gaps; \
             turn off power management, legacy USB and thermal SMIs in the firmware",
        ),
        Obstacle::Kernel => (
            "the kernel",
            "no setting of this kernel is left for it: another kernel, or less work for it on \
             these CPUs (punctual explain names what asked for it)",
        ),
        Obstacle::Program => (
            "the program itself",
            "change the program: punctual explain says how",
        ),
        Obstacle::Group => (
            "a limit of its control group",
            "raise the limit where the group is set up: punctual explain says which",
        ),
        Obstacle::Tool => (
            "punctual",
            "leave it a CPU that is not probed (-a), or measure without tracing (--no-explain)",
        ),
        Obstacle::WakeUp => (
            "the wake-up itself",
            "every wake-up takes the timer's interrupt, the switch and the return",
        ),
        Obstacle::Unknown => ("not known", "no event explains it: nothing is proposed"),
    }
}

fn obstacles(out: &mut String, ask: &BillsAsk, style: &Style) {
    if ask.obstacles.is_empty() {
        return;
    }
    out.push('\n');
    push_toned(
        out,
        Tone::Bold,
        "",
        "No setting of this machine helps",
        style,
    );
    for (what, cost) in &ask.obstacles {
        let (title, instead) = obstacle(*what);
        push_toned(out, Tone::Plain, "  ", title, style);
        push_toned(out, Tone::Plain, "    cost   ", &costs(cost), style);
        push_toned(out, Tone::Plain, "    hint   ", instead, style);
    }
}
