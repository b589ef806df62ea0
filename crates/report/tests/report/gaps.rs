//! What reports call gaps.

use punctual_record::Run;
use punctual_report::compare::{TextStyle, compare, compare_text};
use punctual_stats::compare::{Conclusion, Untested};
use punctual_stats::histogram::{Histogram, HistogramRecord};

use super::fixtures::gaps;

/// No report may call a gap a latency or a wake-up.
#[test]
fn no_report_of_gaps_speaks_of_wake_ups() {
    let run = gaps();
    let bare = |text: String| {
        let text = text.replace("cpu_dma_latency", "").replace("latency.", "");
        text.to_lowercase()
    };
    let style = punctual_report::style::Style::plain();
    let mut texts = vec![(
        "terminal".to_owned(),
        bare(punctual_report::terminal::summary(&run, &style)),
    )];
    let page = punctual_report::html::page(&run);
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

/// A machine with more short gaps has the lower percentiles: it isn't the quicker one.
#[test]
fn gaps_are_not_compared_by_their_lengths() {
    let quiet = gaps();
    let mut noisy = gaps();
    let short = |latencies: &HistogramRecord| {
        let mut all = Histogram::try_from(latencies).unwrap();
        all.record_n(1_200, 50_000);
        HistogramRecord::from(&all)
    };
    for (thread, watched) in
        (noisy.threads.iter_mut()).zip(&mut noisy.gaps.as_mut().unwrap().threads)
    {
        thread.latency = short(&thread.latency);
        thread.tid += 100;
        watched.gap_ns += 50_000 * 1_200;
        watched.polled_ns -= 50_000 * 1_200;
    }
    let other = |run: &Run, minute: u64| {
        let mut run = run.clone();
        run.started = format!("2026-01-01T00:{minute:02}:00Z");
        run
    };
    let side = |run: &Run, at: [u64; 4]| at.map(|minute| other(run, minute));
    let (first, second) = (side(&quiet, [0, 3, 4, 7]), side(&noisy, [1, 2, 5, 6]));
    for (first, second) in [(&first[..1], &second[..1]), (&first[..], &second[..])] {
        let compared = compare(first, second, None).unwrap();
        assert_eq!(
            compared.statistics.conclusion,
            Conclusion::Untested {
                why: Untested::Gaps
            }
        );
        assert!(compared.first.gap_share < compared.second.gap_share);
        let text = compare_text(&compared, TextStyle::default());
        let row = text.lines().find(|line| line.starts_with("time in gaps"));
        let shares: Vec<&str> = row
            .unwrap()
            .split("  ")
            .filter(|it| it.contains("ppm"))
            .collect();
        assert_eq!(shares.len(), 2, "{text}");
        assert_ne!(shares[0].trim(), shares[1].trim(), "{text}");
        assert!(!text.contains("in turn"), "{text}");
        assert!(text.starts_with("Not tested"), "{text}");
        assert!(
            text.contains("time in gaps") && !text.contains("wake-up"),
            "{text}"
        );
    }
}
