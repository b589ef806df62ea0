//! Bills of windows that were recorded on a real kernel.

use punctual_record::Bill;
use punctual_report::explain::bill_text;
use punctual_report::style::Style;
use punctual_trace::attribute::bill;

use super::data::{run, window};
use super::terminal::same_as_file;

/// The text of a bill, whose rows a reader can add up.
#[test]
fn as_text() {
    let run = run();
    let mut text = String::new();
    let mut add = |bill: &Bill, number| text += &bill_text(&run, bill, number, &Style::plain());
    for (number, name) in ["quiet-0", "preempt-off-0", "irqs-off-0", "hog-0", "flood-0"]
        .into_iter()
        .enumerate()
    {
        add(&bill(&window(name)), number + 1);
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    same_as_file("bills.txt", &text);
}
