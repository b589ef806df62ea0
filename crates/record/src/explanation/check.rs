//! What an explanation promises beyond its types.

use std::collections::BTreeSet;

use super::{Bill, Culprit, Doing, Explanation, Picture, RowNote, Wait, WaitRow};
use crate::bounds::{Broken, Extent, at_most, broken, ensure, histogram};

pub fn check(explanation: &Explanation, extent: &Extent) -> Result<(), Broken> {
    let place = |name: &str| format!("explanation.{name}");
    at_most(explanation.bills.len(), Explanation::BILLS, place("bills"))?;
    at_most(
        explanation.ranking.len(),
        Explanation::CAUSES,
        place("ranking"),
    )?;
    at_most(explanation.missing.len(), 64, place("missing"))?;
    at_most(
        explanation.limits.len(),
        Explanation::LIMITS,
        place("limits"),
    )?;
    counts(explanation)?;
    stages(explanation)?;
    ranking(explanation)?;
    let mut before = u64::MAX;
    for (index, bill) in explanation.bills.iter().enumerate() {
        let place = format!("explanation.bills[{index}]");
        ensure(
            bill.latency_ns <= before,
            &place,
            "worse than the one before it",
        )?;
        before = bill.latency_ns;
        self::bill(bill, &place)?;
    }
    at_most(explanation.waits.len(), Explanation::WAITS, place("waits"))?;
    for (index, wait) in explanation.waits.iter().enumerate() {
        self::wait(wait, &format!("explanation.waits[{index}]"), extent)?;
    }
    Ok(())
}

/// Refuses threads with more ancestors than are named.
pub(crate) fn ancestors<'a>(
    threads: impl Iterator<Item = &'a Culprit>,
    place: &str,
) -> Result<(), Broken> {
    let most = threads.map(|thread| thread.parents.len()).max();
    let place = format!("{place}: parents");
    at_most(most.unwrap_or(0), Culprit::PARENTS, place)
}

fn wait(wait: &Wait, place: &str, extent: &Extent) -> Result<(), Broken> {
    at_most(wait.rows.len(), Wait::ROWS, format!("{place}.rows"))?;
    let of_rows = wait.rows.iter().flat_map(WaitRow::threads);
    ancestors(of_rows.chain([&wait.thread]), place)?;
    let sum: u128 = wait.rows.iter().map(|row| u128::from(row.ns)).sum();
    ensure(
        sum == u128::from(wait.wait_ns),
        format!("{place}.rows"),
        format!("sum to {sum}, where the wait is {}", wait.wait_ns),
    )?;
    let mut seen = BTreeSet::new();
    for (index, row) in wait.rows.iter().enumerate() {
        let reason = if row.thread.is_none() != matches!(row.doing, Doing::Other) {
            "a thread and what it did go together; `other` alone has none"
        } else if row.thread.as_ref().is_some_and(|it| it.ns > row.ns) {
            "its thread took more than the row"
        } else if !seen.insert((row.thread.as_ref().map(|it| it.tid), &row.doing)) {
            "the same thread doing the same twice"
        } else {
            continue;
        };
        return broken(format!("{place}.rows[{index}]"), reason);
    }
    let run = wait.run.unwrap_or(0);
    ensure(
        wait.run != Some(0),
        format!("{place}.run"),
        "runs count from 1",
    )?;
    extent.has_part(run, &format!("{place}.run"))?;
    ensure(wait.count > 0, format!("{place}.count"), "no wait")?;
    ensure(
        wait.total_ns >= wait.wait_ns,
        format!("{place}.total_ns"),
        "less than the longest",
    )?;
    ensure(
        wait.count > 1 || wait.total_ns == wait.wait_ns,
        format!("{place}.total_ns"),
        format!("{}, where one wait is {}", wait.total_ns, wait.wait_ns),
    )?;
    let Some(to_ns) = wait.from_ns.checked_add(wait.wait_ns) else {
        return broken(format!("{place}.wait_ns"), "ends after the end of time");
    };
    // A wait that had begun before the watch is not counted.
    extent.holds(wait.from_ns, &format!("{place}.from_ns"))?;
    extent.holds(to_ns, &format!("{place}.wait_ns"))
}

fn counts(explanation: &Explanation) -> Result<(), Broken> {
    let Explanation {
        outliers,
        explained,
        unexplained,
        lost,
        examined,
        ..
    } = *explanation;
    let sum = u128::from(explained) + u128::from(unexplained) + u128::from(lost);
    ensure(
        u128::from(outliers) == sum,
        "explanation.outliers",
        format!("{outliers}, where those explained, unexplained and lost are {sum}"),
    )?;
    let with_bill = u128::from(explained) + u128::from(unexplained);
    ensure(
        with_bill <= u128::from(examined),
        "explanation.examined",
        format!("{examined} bills, where {with_bill} outliers have one"),
    )?;
    ensure(
        explanation.bills.len() as u64 <= examined,
        "explanation.bills",
        format!(
            "{} bills, where {examined} were made",
            explanation.bills.len()
        ),
    )?;
    ensure(
        explanation.tail_ns <= explanation.examined_ns,
        "explanation.tail_ns",
        "more than examined_ns",
    )
}

fn stages(explanation: &Explanation) -> Result<(), Broken> {
    let mut last = None;
    for (index, entry) in explanation.stages.iter().enumerate() {
        let place = format!("explanation.stages[{index}]");
        ensure(
            last.is_none_or(|last| last < entry.stage),
            &place,
            "not in the order of the stages",
        )?;
        last = Some(entry.stage);
        histogram(&entry.times, &format!("{place}.times"))?;
    }
    Ok(())
}

fn ranking(explanation: &Explanation) -> Result<(), Broken> {
    let mut seen = BTreeSet::new();
    let (mut total, mut tail) = (0u128, 0u128);
    for (index, ranked) in explanation.ranking.iter().enumerate() {
        let place = format!("explanation.ranking[{index}]");
        let reason = if !seen.insert(&ranked.cause) {
            "stands there twice"
        } else if ranked.count > explanation.examined {
            "in more bills than there are"
        } else if ranked.tail_ns > ranked.total_ns || ranked.worst_ns > ranked.total_ns {
            "a part is more than the whole"
        } else {
            total += u128::from(ranked.total_ns);
            tail += u128::from(ranked.tail_ns);
            continue;
        };
        return broken(place, reason);
    }
    for (name, sum, stated) in [
        ("examined_ns", total, explanation.examined_ns),
        ("tail_ns", tail, explanation.tail_ns),
    ] {
        ensure(
            sum == u128::from(stated),
            format!("explanation.{name}"),
            format!("{stated}, where the ranking sums to {sum}"),
        )?;
    }
    Ok(())
}

fn bill(bill: &Bill, place: &str) -> Result<(), Broken> {
    at_most(bill.rows.len(), Explanation::ROWS, format!("{place}.rows"))?;
    let sums = [
        ("rows", bill.rows.iter().map(|row| row.ns).collect()),
        ("stages", bill.stages.ns.iter().flatten().copied().collect()),
    ];
    for (name, parts) in sums {
        let parts: Vec<u64> = parts;
        let sum: u128 = parts.iter().map(|ns| u128::from(*ns)).sum();
        ensure(
            sum == u128::from(bill.latency_ns),
            format!("{place}.{name}"),
            format!("sum to {sum}, where the latency is {}", bill.latency_ns),
        )?;
    }
    let mut seen = BTreeSet::new();
    for (index, row) in bill.rows.iter().enumerate() {
        let place = format!("{place}.rows[{index}]");
        at_most(
            row.stack.len(),
            Explanation::FRAMES,
            format!("{place}.stack"),
        )?;
        at_most(row.by.len(), Culprit::MOST, format!("{place}.by"))?;
        let noted = row.notes.iter().filter_map(RowNote::thread);
        ancestors(row.by.iter().chain(noted), &place)?;
        at_most(
            row.notes.len(),
            Explanation::NOTES,
            format!("{place}.notes"),
        )?;
        ensure(
            seen.insert((row.stage, &row.cause)),
            place,
            "the same cause twice in one stage",
        )?;
    }
    bill.picture
        .as_ref()
        .map_or(Ok(()), |picture| self::picture(picture, place))
}

/// What a picture promises.
pub(crate) fn picture(picture: &Picture, place: &str) -> Result<(), Broken> {
    let place = format!("{place}.picture");
    at_most(
        picture.spans.len(),
        Picture::SPANS,
        format!("{place}.spans"),
    )?;
    at_most(
        picture.marks.len(),
        Picture::MARKS,
        format!("{place}.marks"),
    )?;
    for (index, span) in picture.spans.iter().enumerate() {
        ensure(
            span.from_ns <= span.to_ns,
            format!("{place}.spans[{index}]"),
            "ends before it begins",
        )?;
    }
    Ok(())
}
