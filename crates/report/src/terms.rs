//! What the things are called that a run measured: wake-ups with a latency, or gaps with a
//! length. A gap is no latency, and no report may call it one.

use punctual_record::{
    CrossCheck, CrossCheckFault, CrossFigureName, Gaps, Method, Run, Subject, Watched,
};

use super::statements::{Fact, fact};
use super::words;

/// The words for what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// One of them.
    pub one: &'static str,
    /// Several.
    pub many: &'static str,
    /// What is measured of each.
    pub size: &'static str,
    /// The same at the beginning of a heading.
    pub heading: &'static str,
    /// Those above the limit.
    pub late: &'static str,
    /// Those that have no time, because there never was one.
    pub missed: &'static str,
    /// Those that happened, and that the recorder had no space for.
    pub unrecorded: &'static str,
    /// What a mark in a picture says of a moment with one of those.
    pub late_mark: &'static str,
    /// Where one begins and ends, in a picture of it.
    pub ends: [&'static str; 2],
    /// Whose time it is, in a picture of it.
    pub who: &'static str,
    /// What one of so many ns is called: `12 µs late`, `gap of 12 µs`.
    gap: bool,
}

const WAKE_UPS: Terms = Terms {
    one: "wake-up",
    many: "wake-ups",
    size: "latency",
    heading: "Latency",
    late: "Late wake-ups",
    missed: "skipped",
    unrecorded: "lost",
    late_mark: "late or skipped",
    ends: ["due", "woken"],
    who: "the probe",
    gap: false,
};

const GAPS: Terms = Terms {
    one: "gap",
    many: "gaps",
    size: "length",
    heading: "Length of gaps",
    late: "Longer than the limit",
    missed: "skipped",
    unrecorded: "lost",
    late_mark: "above the limit",
    ends: ["begins", "ends"],
    who: "the probe",
    gap: true,
};

const MESSAGES: Terms = Terms {
    one: "message",
    many: "messages",
    size: "round trip",
    heading: "Round trips",
    late: "Late messages",
    missed: "unanswered",
    unrecorded: "unrecorded",
    late_mark: "late or unanswered",
    ends: ["due", "replied"],
    who: "the message",
    gap: false,
};

impl Default for Terms {
    fn default() -> Self {
        WAKE_UPS
    }
}

impl Terms {
    /// The words for the jobs of tasks.
    pub const JOBS: Terms = Terms {
        one: "job",
        many: "jobs",
        size: "response time",
        heading: "Response times",
        late: "Late jobs",
        missed: "skipped",
        unrecorded: "lost",
        late_mark: "late or skipped",
        ends: ["arrival", "end"],
        who: "the task",
        gap: false,
    };

    /// The words for messages, or for wake-ups.
    #[must_use]
    pub fn of(messages: bool) -> Self {
        if messages { MESSAGES } else { WAKE_UPS }
    }

    /// [`Terms::missed`], of several.
    #[must_use]
    pub fn of_missed(&self) -> String {
        match self.missed {
            "skipped" => "skipped periods".to_owned(),
            other => format!("{other} {}", self.many),
        }
    }

    /// Whether gaps were looked for, and no wake-ups measured.
    #[must_use]
    pub fn are_gaps(&self) -> bool {
        self.gap
    }

    /// The words for a run.
    #[must_use]
    pub fn for_run(run: &Run) -> Self {
        if run.path.is_some() {
            return MESSAGES;
        }
        match (&run.gaps, &run.watch) {
            (Some(_), _) => GAPS,
            (None, Some(_)) => Self {
                who: "who was late",
                ..WAKE_UPS
            },
            (None, None) => WAKE_UPS,
        }
    }

    /// Around one of so many ns, as the description of its picture has it.
    #[must_use]
    pub fn around(self, ns: u64) -> String {
        let time = words::duration(ns);
        if self.gap {
            format!("in a gap of {time}")
        } else {
            format!("around a wake-up that was {time} late")
        }
    }

    /// One of so many ns, as a bill's heading has it.
    #[must_use]
    pub fn outlier(self, ns: u64) -> String {
        let time = words::duration(ns);
        if self.gap {
            format!("gap of {time}")
        } else {
            format!("latency {time}")
        }
    }
}

fn ppm(part: u64, whole: u64) -> String {
    in_ppm(part as f64 / whole.max(1) as f64)
}

/// A share in parts of a million.
pub(crate) fn in_ppm(share: f64) -> String {
    match 1e6 * share {
        ppm if ppm < 100.0 => format!("{ppm:.1} ppm"),
        ppm => format!("{} ppm", words::count(ppm.round() as u64)),
    }
}

/// How gaps were looked for, in a few words.
#[must_use]
pub fn how(gaps: &Gaps) -> String {
    if gaps.method == Method::Hwlat {
        return format!(
            "the kernel's hwlat tracer, interrupts disabled for {} of every {}, gaps above {}",
            words::duration(gaps.runtime_ns),
            words::duration(gaps.period_ns),
            words::duration(gaps.above_ns)
        );
    }
    let duty = if gaps.runtime_ns < gaps.period_ns {
        format!(
            "polling {} of every {}",
            words::duration(gaps.runtime_ns),
            words::duration(gaps.period_ns)
        )
    } else {
        "polling without rest".to_owned()
    };
    let step = match gaps.step_ns {
        0 => String::new(),
        step => format!(" (a step of the loop takes {step} ns)"),
    };
    format!(
        "{duty}, gaps above {}{step}",
        words::duration(gaps.above_ns)
    )
}

/// The comparison with the kernel's own tracer.
#[must_use]
pub fn cross_facts(check: &CrossCheck) -> Vec<Fact> {
    let name = "Cross-check";
    let tracer = check.tracer.name();
    if let Some(fault) = &check.missing {
        let why = match fault {
            CrossCheckFault::RunEndedEarly => "the run was ended early",
            CrossCheckFault::NoSamples => "the tracer reported nothing",
            CrossCheckFault::Failed { error } => error,
        };
        return vec![fact(name, format!("not made with {tracer}: {why}"))];
    }
    let value = |figure: CrossFigureName, value: f64| match figure {
        CrossFigureName::Noise => format!("{value:.1} ppm"),
        CrossFigureName::Median | CrossFigureName::P99 | CrossFigureName::Maximum => {
            words::duration_f64(value)
        }
    };
    let title = |figure: CrossFigureName| match figure {
        CrossFigureName::Median => "median",
        CrossFigureName::P99 => "p99",
        CrossFigureName::Maximum => "maximum",
        CrossFigureName::Noise => "noise",
    };
    let figures: Vec<String> = check
        .figures
        .iter()
        .map(|figure| {
            let ratio = figure
                .ratio
                .filter(|ratio| ratio.is_finite())
                .map_or_else(String::new, |ratio| format!(" (ratio {ratio:.2})"));
            format!(
                "{} {} to {}{ratio}",
                title(figure.name),
                value(figure.name, figure.ours),
                value(figure.name, figure.theirs)
            )
        })
        .collect();
    let lost = match check.lost {
        0 => String::new(),
        lost => format!("; it lost {}", words::count(lost)),
    };
    vec![fact(
        name,
        format!(
            "ours to the kernel's {tracer}: {}; its {} in {}, after ours and under the same \
             load{lost}",
            figures.join(", "),
            words::count(check.samples),
            words::duration(check.measured_ns)
        ),
    )]
}

/// What gaps amount to, each thread and all; empty where wake-ups were measured.
#[must_use]
pub fn gap_facts(run: &Run) -> Vec<Fact> {
    let Some(gaps) = &run.gaps else {
        return Vec::new();
    };
    let name = match gaps.subject {
        Subject::Noise => "Noise",
        Subject::Hardware => "Gaps",
    };
    let mut facts = Vec::new();
    let (span_ns, watched_ns) = gaps.spans_ns();
    let time_ns = gaps
        .threads
        .iter()
        .map(Watched::counted_ns)
        .fold(0, u64::saturating_add);
    let mut text = format!(
        "{} of the time watched ({})",
        ppm(time_ns, watched_ns),
        words::duration(time_ns)
    );
    let each: Vec<String> = gaps
        .threads
        .iter()
        .enumerate()
        .take(16)
        .map(|(index, thread)| {
            let label = run.thread_label(index);
            format!("{label} {}", ppm(thread.counted_ns(), thread.watched_ns()))
        })
        .collect();
    if each.len() > 1 {
        text += &format!(": {}", each.join(", "));
    }
    facts.push(fact(name, text));
    let share = |part: u64| 100.0 * part as f64 / span_ns.max(1) as f64;
    facts.push(fact(
        "Watched",
        format!(
            "{:.2} % of the time: {} of {}; a gap in the rest was not seen",
            share(watched_ns),
            words::duration(watched_ns),
            words::duration(span_ns)
        ),
    ));
    if gaps.subject == Subject::Hardware {
        let sum = |part: fn(&Watched) -> u64| {
            let parts = gaps.threads.iter().map(part);
            parts.fold(0, u64::saturating_add)
        };
        let aside = sum(|thread| thread.set_aside);
        let text = if gaps.method == Method::Hwlat {
            "nothing: interrupts were disabled, so that only an NMI of the kernel could cause a gap; the \
             longest gap of each window of the tracer counts"
                .to_owned()
        } else if gaps.sifted {
            let untold = match sum(|thread| thread.untold) {
                0 => String::new(),
                n => format!(
                    "; {} of them may have been, because events are missing",
                    words::count(n)
                ),
            };
            format!(
                "{} in which the kernel did something ({}): not the platform's{untold}",
                words::plural(aside, "gap", "gaps"),
                words::duration(sum(|thread| thread.set_aside_ns))
            )
        } else {
            "none: the kernel's events are not known, so these include the kernel's own gaps"
                .to_owned()
        };
        facts.push(fact("Set aside", text));
    }
    let counted: Vec<u64> = gaps
        .threads
        .iter()
        .filter_map(|thread| thread.smi)
        .collect();
    if !counted.is_empty() && counted.len() == gaps.threads.len() {
        let most = counted.iter().copied().max().unwrap_or(0);
        let text = format!("{} system management interrupts", words::count(most));
        facts.push(fact("SMI", text));
    } else if gaps.subject == Subject::Hardware {
        let text = "system management interrupts cannot be counted here".to_owned();
        facts.push(fact("SMI", text));
    }
    facts
}
