//! What reports call gaps.

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
