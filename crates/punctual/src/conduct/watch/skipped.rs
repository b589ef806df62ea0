//! Which periods a thread skipped between two instants for which it waited.

use punctual_stats::skips::Skip;

use super::limits::Limits;
use super::stopped::{Instants, ThreadStops};

/// An instant for which the thread waited.
#[derive(Clone, Copy, Default)]
pub struct Instant {
    pub due_ns: u64,
    /// When the wait for it began, if that is known.
    pub begun_ns: Option<u64>,
    /// If the kernel armed the timer when the thread took the instants before: when, and for which instant, this
    /// one or one that passed as well.
    pub rearmed: Option<(u64, u64)>,
    pub end_ns: u64,
    /// How long the thread had slept in all its waits, and how long of that in this one.
    pub rested_ns: u64,
    pub slept_ns: u64,
    /// Whether its wait only said that it had come: the program took it later, by another call.
    pub polled: bool,
    /// Whether it had passed when the thread had last woken.
    pub passed: bool,
    /// How late the wait for it began, if the thread itself caused that.
    pub overran_ns: Option<u64>,
    /// Instants just before it that are counted already.
    pub counted: u64,
    /// Lost wake-ups before it: the thread may have waited for instants that are not recorded.
    pub unseen: u64,
}

/// How late a wait for an instant would have begun if the thread had woken on time for the last one:
/// this part is caused by the thread itself. If the thread itself began the last wait late, that part
/// of its late wake-up counts too.
pub fn overran_ns(last: Option<&Instant>, due_ns: u64, begun_ns: Option<u64>) -> Option<u64> {
    let late_ns = begun_ns?.checked_sub(due_ns)?;
    let of_others_ns = last.map_or(0, |last| {
        let woken_late_ns = last.end_ns.saturating_sub(last.due_ns);
        woken_late_ns.saturating_sub(last.overran_ns.unwrap_or(0))
    });
    late_ns.checked_sub(of_others_ns)
}

/// Of `count` instants between two that the thread may have taken without a wait: those that were late for certain;
/// and how many others, in no stop, may have been, and by how much at most.
pub fn split_untaken(
    stops: &mut ThreadStops,
    (from, to): (&Instant, &Instant),
    period_ns: u64,
    count: u64,
    limits: &Limits,
) -> (u64, (u64, u64)) {
    let certain = passed_asleep(from, period_ns, limits.strictest_ns()).min(count);
    let others = Instants {
        at_ns: from.due_ns + period_ns * (certain + 1),
        count: count - certain,
        period_ns,
    };
    let most_ns = to.end_ns.saturating_sub(others.at_ns);
    let outside = stops.outside(others, to.end_ns);
    (certain, (outside.iter().map(|it| it.count).sum(), most_ns))
}

/// How many instants after one had passed by more than a limit when the thread woke for that one.
fn passed_asleep(from: &Instant, period_ns: u64, limit_ns: u64) -> u64 {
    if from.passed {
        return 0;
    }
    let by_ns =
        (from.end_ns.saturating_sub(from.due_ns)).saturating_sub(limit_ns.saturating_add(1));
    by_ns / period_ns.max(1)
}

/// Instants that the thread took together with one before them.
pub struct Taken {
    /// It came back for this one; the others got no cycle of their own.
    pub last: Instant,
    /// How many these are.
    pub count: u64,
    /// Whether it came back before the last one, and took it with a later call: what it did until then nobody saw.
    pub in_between: bool,
}

/// Of `count` instants between two: those that the thread took at once with `from`, because they had passed too.
pub fn taken_at_once(from: &Instant, to: &Instant, period_ns: u64, count: u64) -> Option<Taken> {
    let (at_ns, armed_for_ns) = to.rearmed.filter(|_| to.unseen == 0)?;
    let periods = (armed_for_ns.checked_sub(from.due_ns)? + period_ns / 2) / period_ns.max(1);
    let first = periods
        .checked_sub(1)
        .filter(|it| (1..=count).contains(it))?;
    let due_ns = armed_for_ns.checked_sub(period_ns)?;
    Some(Taken {
        last: Instant {
            due_ns,
            begun_ns: Some(at_ns),
            end_ns: at_ns.max(due_ns),
            passed: true,
            ..Instant::default()
        },
        count: first,
        in_between: from.polled && from.end_ns < due_ns,
    })
}

/// The periods that were skipped from one instant to the next, and whether the thread caused that
/// itself: first those that passed before its late wake-up, until it woke; then those that passed
/// after it, until the next wake-up. Periods in stops do not count.
pub fn skipped(
    stops: &mut ThreadStops,
    from: Instant,
    to: Instant,
    period_ns: u64,
    count: u64,
) -> Vec<(Skip, bool)> {
    let mut skips = Vec::new();
    let mut add = |(at_ns, count): (u64, u64), end_ns, resumed_ns, near_ns, itself| {
        let instants = Instants {
            at_ns,
            count,
            period_ns,
        };
        for part in stops.outside(instants, resumed_ns) {
            let first_ns = at_ns.saturating_add(part.first.saturating_mul(period_ns));
            let most_ns = part.until_ns.unwrap_or(end_ns).saturating_sub(first_ns);
            let span_ns = period_ns.saturating_mul(part.count - 1);
            let near_ns: Option<u64> = near_ns;
            let skip = Skip {
                at_ns: near_ns.filter(|_| part.first == 0).unwrap_or(first_ns),
                count: part.count,
                most_ns,
                least_ns: most_ns.saturating_sub(span_ns),
                period_ns,
                longest_period_ns: 0,
                joined: false,
            };
            skips.push((skip, itself));
        }
    };
    let instant = |number: u64| from.due_ns.saturating_add(number.saturating_mul(period_ns));
    let late = from.end_ns.saturating_sub(from.due_ns) / period_ns.max(1);
    let late = if from.passed { 0 } else { late.min(count) };
    // At the instant of the late wake-up: both are one delay.
    let asleep = (instant(1), late);
    add(
        asleep,
        from.end_ns,
        from.end_ns,
        Some(from.due_ns),
        from.overran_ns.is_some(),
    );
    let busy = (instant(late + 1), count - late);
    // It was done when the wait began, if that is known.
    add(
        busy,
        to.end_ns,
        to.begun_ns.unwrap_or(to.end_ns),
        None,
        true,
    );
    skips
}

/// Whether the program may have left instants out on purpose: it waited for one beyond the next that was to come, or
/// for one of another grid after it had rested for most of the time.
pub fn is_planned(from: &Instant, to: &Instant, period_ns: u64, on_grid: bool) -> bool {
    let begun_ns = to.begun_ns.unwrap_or(to.due_ns);
    let ahead = to.due_ns.saturating_sub(begun_ns) > period_ns.saturating_add(period_ns / 4);
    let rested_ns = (to.rested_ns - to.slept_ns).saturating_sub(from.rested_ns);
    let passed_ns = begun_ns.saturating_sub(from.end_ns);
    ahead || !on_grid && rested_ns > passed_ns / 2 && passed_ns > period_ns
}

/// How many instants of a timer with too few for a period may have been skipped: of the shortest distance that
/// repeats, as many as had passed when the next wait began.
pub fn unsure<'a>(gaps: impl Iterator<Item = &'a (Instant, Instant)> + Clone) -> u64 {
    let length = |(from, to): &(Instant, Instant)| to.due_ns.saturating_sub(from.due_ns);
    let mut lengths: Vec<u64> = gaps.clone().map(length).collect();
    lengths.sort_unstable();
    let near = |it: &&[u64]| it[1] - it[0] <= it[0] / 1000;
    let Some(period_ns) = lengths.windows(2).find(near).map(|it| it[0].max(1)) else {
        return 0;
    };
    let skipped = gaps.map(|gap| {
        let (from, to) = gap;
        let between = (length(gap) + period_ns / 2) / period_ns;
        let begun_ns = to.begun_ns.unwrap_or(to.due_ns);
        let passed = begun_ns.saturating_sub(from.due_ns) / period_ns;
        between.saturating_sub(1).min(passed)
    });
    skipped.sum()
}
