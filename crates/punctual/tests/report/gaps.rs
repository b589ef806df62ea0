//! A run that looked for gaps, and what reports call it.

use punctual::record::{Gaps, Method, Run, Subject, Thread, Watched, analyse_record};
use punctual_stats::requirement::Requirement;

use super::fixtures::{Random, Spec, make};

/// A thread that polled the clock on each of two CPUs, and what was found.
pub fn gaps() -> Run {
    let latency = |cpu: usize, cycle: u64, random: &mut Random| {
        if cpu == 1 && cycle % 4_000 == 17 {
            random.log_normal(310_000.0, 0.1)
        } else {
            random.log_normal(4_300.0, 0.4)
        }
    };
    let mut run = make(&Spec {
        cpus: 2,
        samples: 20_000,
        interval_ns: 1_000_000,
        requirements: vec![Requirement::Max { limit_ns: 500_000 }],
        invalid: vec![],
        latency: &latency,
    });
    run.request.source = "hardware".to_owned();
    let watched = |thread: &mut Thread| {
        let gap_ns = u64::try_from(thread.latency.sum_ns).unwrap() + 5_000_000;
        let watched = Watched {
            span_ns: 10_000_000_000,
            polled_ns: 9_000_000_000 - gap_ns,
            gap_ns,
            unwatched_ns: 1_000_000_000,
            polls: 300_000_000,
            set_aside: 400,
            set_aside_ns: 5_000_000,
            untold: 3,
            smi: Some(2),
        };
        thread.measured_ns = watched.span_ns;
        watched
    };
    run.gaps = Some(Gaps {
        subject: Subject::Hardware,
        method: Method::Polling,
        above_ns: 1_000,
        step_ns: 27,
        runtime_ns: 90_000_000,
        period_ns: 100_000_000,
        sifted: true,
        threads: run.threads.iter_mut().map(watched).collect(),
    });
    run.measured_ns = 10_000_000_000;
    let analysis = analyse_record(&run).unwrap();
    run.conclude(analysis);
    run
}

/// No report may call a gap a latency or a wake-up.
#[test]
fn no_report_of_gaps_speaks_of_wake_ups() {
    let run = gaps();
    let bare = |text: String| {
        let text = text.replace("cpu_dma_latency", "").replace("latency.", "");
        text.to_lowercase()
    };
    let style = punctual::report::style::Style::plain();
    let mut texts = vec![(
        "terminal".to_owned(),
        bare(punctual::report::terminal::summary(&run, &style)),
    )];
    let page = punctual::report::html::page(&run);
    // Up to the script, and without names in tags.
    let mut words = String::new();
    let body = page.split_once("<body").map_or("", |(_, body)| body);
    for piece in body.split('<') {
        words += piece.split_once('>').map_or("", |(_, text)| text);
        words.push(' ');
    }
    texts.push(("page".to_owned(), bare(words)));
    for (name, text) in texts {
        for word in ["wake-up", "wake up", "latency", "latencies", "missed"] {
            let at = text.find(word);
            let around = at.map(|at| {
                let from = text.floor_char_boundary(at.saturating_sub(80));
                let to = text.floor_char_boundary((at + 80).min(text.len()));
                &text[from..to]
            });
            assert_eq!(around, None, "{name}: {word}");
        }
    }
}
