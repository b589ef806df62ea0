use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn budget() -> Budget {
    Budget {
        runtime_ns: 950 * MS,
        period_ns: 1000 * MS,
        bound: RealTimeBound::Machine,
    }
}

/// How long real-time threads ran, within how long, and how long the probe was ready, in ms.
fn figures_ms(seen: Option<Throttling>) -> [u64; 3] {
    match seen {
        Some(Throttling::Accounts {
            cpu: 0,
            ran_ns,
            window_ns,
            ready_ns,
            ..
        }) => [ran_ns, window_ns, ready_ns].map(|ns| ns / MS),
        other => panic!("{other:?}"),
    }
}

/// Looks of a window, with a quiet one before and after it.
fn looks(parts: &[Part]) -> Vec<Look> {
    let look = |part: &Part| Look {
        length_ns: 250 * MS,
        cpus: BTreeMap::from([(0, *part)]),
    };
    let quiet = part(0, 0, 0, 0);
    let all = [&[quiet][..], parts, &[quiet]].concat();
    all.iter().map(look).collect()
}

fn part(rt: u64, above: u64, stolen: u64, waited: u64) -> Part {
    Part {
        rt_ns: rt * MS,
        group_ns: 2 * MS,
        above_ns: above * MS,
        stolen_ns: stolen * MS,
        pending_ns: 0,
        waited_ns: waited * MS,
        real_time: true,
    }
}

#[test]
fn a_probe_that_waits_for_no_thread_while_the_budget_is_used_up_is_throttled() {
    // A thread of lower priority uses it all, and 50 ms were used by no real-time thread.
    let hog = [part(250, 0, 0, 0); 4];
    let mut parts = hog.to_vec();
    parts.push(part(200, 0, 0, 50));
    let [_, _, ready_ms] = figures_ms(throttled(&looks(&parts), &budget(), 0));
    assert_eq!(ready_ms, 50);
    assert_eq!(throttled(&looks(&parts), &budget(), 1), None);
}

#[test]
fn interference_steal_time_and_long_kernel_sections_are_not_throttling() {
    // A thread of higher priority ran meanwhile.
    let parts = [part(238, 225, 0, 225); 5];
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
    // The host had the CPU.
    let mut parts = [part(250, 0, 0, 0); 5];
    parts[2] = part(100, 0, 150, 150);
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
    // Half of the budget, and 40 ms with preemption disabled.
    let mut parts = [part(125, 0, 0, 0); 5];
    parts[2].waited_ns = 40 * MS;
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
    // An ordinary thread releases the CPU all the time.
    let mut parts = [part(250, 0, 0, 50); 5];
    parts.iter_mut().for_each(|part| part.real_time = false);
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
}

#[test]
fn a_group_may_have_a_budget_of_its_own() {
    let group = Budget {
        runtime_ns: 10 * MS,
        bound: RealTimeBound::Group {
            file: "cpu.rt_runtime_us".to_owned(),
        },
        ..budget()
    };
    let mut parts = [part(2, 0, 0, 0); 5];
    assert_eq!(throttled(&looks(&parts), &group, 0), None);
    parts[3].waited_ns = 800 * MS;
    assert_eq!(figures_ms(throttled(&looks(&parts), &group, 0))[0], 10);
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
}

#[test]
fn the_time_used_in_a_window_is_no_more_than_the_window() {
    let figures = |parts: &[Part]| figures_ms(throttled(&looks(parts), &budget(), 0));
    // The account of a thread that started before the window is first read within it.
    let mut parts = vec![part(250, 0, 0, 0); 4];
    parts[0] = part(1200, 0, 0, 50);
    assert_eq!(figures(&parts)[..2], [1000, 1000]);
    // An account that lags belongs to one of the previous looks.
    let mut parts = vec![part(0, 0, 0, 0); 4];
    parts[3] = part(960, 0, 0, 40);
    assert_eq!(figures(&parts)[..2], [960, 1000]);
    // Time before the window doesn't use up the budget within it.
    let mut parts = vec![part(100, 0, 0, 50); 4];
    parts[0] = part(900, 0, 0, 50);
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
}

#[test]
fn steal_time_of_another_look_explains_no_wait() {
    // The host takes as much time as the kernel withholds, a look or more away from it.
    let hog = [part(250, 0, 0, 0); 5];
    let mut parts = hog;
    parts[0] = part(190, 0, 60, 0);
    parts[3] = part(200, 0, 0, 50);
    let [_, _, ready_ms] = figures_ms(throttled(&looks(&parts), &budget(), 0));
    assert_eq!(ready_ms, 50);
    // Right next to it, the probe may have waited for it.
    for beside in [2, 3, 4] {
        let mut parts = hog;
        parts[3].waited_ns = 50 * MS;
        parts[beside].stolen_ns = 60 * MS;
        assert_eq!(throttled(&looks(&parts), &budget(), 0), None, "{beside}");
    }
    // If it is less than the wait, the rest of the wait is unexplained.
    let mut parts = hog;
    parts[3] = part(180, 0, 20, 70);
    let [_, _, ready_ms] = figures_ms(throttled(&looks(&parts), &budget(), 0));
    assert_eq!(ready_ms, 40);
}

#[test]
fn a_wait_that_began_before_the_window_is_explained_by_what_was_before() {
    // It is accounted in the look in which it ended: the host had the CPU in the two before that.
    let hog = part(250, 0, 0, 0);
    let stolen = [
        part(100, 0, 150, 0),
        part(0, 0, 250, 0),
        part(240, 0, 0, 400),
    ];
    for behind in 0..5 {
        let mut parts = vec![hog; 5];
        parts.splice(0..0, stolen);
        parts.truncate(3 + behind);
        let all = looks(&parts);
        for from in 0..=3 {
            let found = throttled(&all[from..], &budget(), 0);
            assert_eq!(found, None, "{behind} {from}");
        }
    }
}

/// The owner of the CPU in a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The probe if it is due, otherwise a thread of lower priority.
    Free,
    /// A thread of higher priority.
    Above,
    /// No real-time thread: they are throttled.
    Nobody,
    /// The host.
    Host,
}

/// The kernel's accounts of a time whose truth is known: a wait is added when it ends; at a tick the
/// steal time since the previous one, and what is left of the tick's own 4 ms. They are read in
/// whole ticks of 10 ms. A tick that is due while the host has the CPU is not served later: real
/// kernels do that, and then their accounts lag less than these.
fn accounts(owners: &[Owner]) -> Vec<Look> {
    let mut all = Vec::new();
    let (mut now, mut waiting) = (part(0, 0, 0, 0), None);
    let (mut stolen, mut stolen_accounted, mut ran_accounted) = (0_u64, 0, 0);
    let (mut stolen_read, mut ran_read) = (0, 0);
    let floor = |ns: u64| ns / (10 * MS) * (10 * MS);
    for (at, owner) in owners.iter().enumerate() {
        if *owner == Owner::Host {
            stolen += MS;
        } else {
            // A timer is served when the CPU is available again.
            if waiting.is_none() && at % 5 == 0 {
                waiting = Some(at);
            }
            if at % 4 == 0 {
                ran_accounted += (4 * MS).saturating_sub(stolen - stolen_accounted);
                stolen_accounted = stolen;
            }
        }
        match owner {
            Owner::Free => {
                now.rt_ns += MS;
                if let Some(since) = waiting.take() {
                    now.waited_ns += (at - since) as u64 * MS;
                }
            }
            Owner::Above => {
                now.rt_ns += MS;
                now.above_ns += MS;
            }
            Owner::Nobody | Owner::Host => {}
        }
        if (at + 1) % 250 == 0 {
            now.stolen_ns = floor(stolen_accounted) - stolen_read;
            let ran_ns = floor(ran_accounted) - ran_read;
            now.pending_ns = pending_ns(250 * MS, now.stolen_ns + ran_ns);
            (stolen_read, ran_read) = (floor(stolen_accounted), floor(ran_accounted));
            all.push(Look {
                length_ns: 250 * MS,
                cpus: BTreeMap::from([(0, now)]),
            });
            now = part(0, 0, 0, 0);
        }
    }
    all
}

/// Whether a run with these looks is reported as throttled.
fn found(looks: &[Look]) -> bool {
    (1..=looks.len()).any(|count| {
        let ahead = ahead(&looks[..count], 1250 * MS);
        throttled(&looks[ahead..count], &budget(), 0).is_some()
    })
}

/// Reported once: a thread of higher priority runs, then the host has the CPU twice, with 2 ms
/// between in which no tick is served. The probe's wait ends in these 2 ms, and its steal time is
/// accounted two looks later.
#[test]
fn accounts_that_stand_still_while_the_host_has_the_cpu_prove_nothing() {
    let stolen = [(11_224, 273), (11_018, 199), (11_215, 6)];
    let looks = accounts(&owners((Owner::Above, 476, 253), &stolen));
    let of = |at: usize| looks[at].cpus[&0];
    assert_eq!(of(44).waited_ns, 473 * MS);
    assert_eq!(
        [43, 44, 45, 46].map(|at| of(at).stolen_ns / MS),
        [0, 0, 0, 470]
    );
    assert_eq!([43, 44, 45].map(|at| of(at).pending_ns / MS), [0, 230, 250]);
    assert!(!found(&looks));
}

#[test]
fn accounts_are_behind_if_they_lack_more_than_rounding_explains() {
    let pending_ms = |length, accounted| pending_ns(length * MS, accounted * MS) / MS;
    assert_eq!(pending_ms(250, 250), 0);
    assert_eq!(pending_ms(250, 188), 0);
    assert_eq!(pending_ms(250, 187), 63);
    assert_eq!(pending_ms(250, 260), 0);
    // Looks of a short period: the columns of /proc/stat are rounded to 10 ms each.
    assert_eq!(pending_ms(50, 11), 0);
    assert_eq!(pending_ms(50, 10), 40);
}

/// When the host takes the CPU within 12 s, and for how many ms.
fn stolen(
    times: std::ops::Range<usize>,
    most_ms: usize,
) -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..12_000_usize, 1..=most_ms), times)
}

/// Every second begins with `first` for a part of it; the host takes its time after that.
fn owners(
    (first, length_ms, phase_ms): (Owner, usize, usize),
    stolen: &[(usize, usize)],
) -> Vec<Owner> {
    let of = |at: usize| {
        if (at + phase_ms) % 1000 < length_ms {
            first
        } else {
            Owner::Free
        }
    };
    let mut owners: Vec<Owner> = (0..12_000).map(of).collect();
    for (at, length) in stolen {
        let end = (at + length).min(owners.len());
        owners[*at..end].fill(Owner::Host);
    }
    owners
}

proptest! {
    #[test]
    fn steal_time_and_interference_alone_are_never_reported_as_throttling(
        above_ms in 0..=900_usize,
        phase_ms in 0..1000_usize,
        rare in stolen(0..30, 600),
        dense in stolen(0..300, 30),
    ) {
        let stolen = [rare, dense].concat();
        let owners = owners((Owner::Above, above_ms, phase_ms), &stolen);
        prop_assert!(!found(&accounts(&owners)));
    }

    #[test]
    fn throttling_together_with_steal_time_is_found(
        phase_ms in 0..1000_usize,
        // In total as much as is withheld, within the same windows.
        stolen in stolen(0..12, 100),
    ) {
        let owners = owners((Owner::Nobody, 50, phase_ms), &stolen);
        prop_assert!(found(&accounts(&owners)));
    }
}
