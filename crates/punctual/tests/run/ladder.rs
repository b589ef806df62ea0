//! A ladder on this machine: each rung is set up as it says, by what the kernel says of its thread,
//! and every end leaves the machine as it was.

use punctual_record::Document;
use std::fs;

use punctual_record::ladder::{Ladder, LadderOutcome, Rung, RungLeftOut};
use punctual_stats::verdict::Outcome;

use crate::alone::alone;
use crate::common::{Place, cpus, has_rights, need, needs, until};

/// What the highest rung switches on most machines.
const WORKQUEUES: &str = "/sys/devices/virtual/workqueue/cpumask";

fn read(place: &Place, name: &str) -> Ladder {
    Ladder::read(&place.path().join(name)).expect("a ladder")
}

/// Measures one rung for so many cycles that each write a quarter of a page.
fn measured(place: &Place, rung: Rung) -> Ladder {
    let name = rung.name();
    let fixed = ["ladder", "--load", "none", "-i", "500", "-l", "400"];
    let work = ["--work", "1024", "--settle", "20ms", "--state", "state"];
    let own = ["--rung", name, "-o", name, "-q"];
    let ended = place.run(&[&fixed[..], &work, &own].concat()).expect(0);
    assert!(ended.stdout.contains("400 cycles"), "{}", ended.stdout);
    read(place, name)
}

/// The rungs whose steps this machine can take, asked of a ladder that is too short to be measured.
fn is_possible(rung: Rung) -> bool {
    match rung {
        Rung::RelativeSleep | Rung::AbsoluteSleep => true,
        Rung::Priority | Rung::LockedMemory => has_rights(),
        Rung::Affinity => has_rights() && cpus().len() > 1,
        // Nothing on its CPU may be movable.
        Rung::QuietInterrupts => false,
    }
}

#[test]
fn each_rung_runs_a_thread_that_the_kernel_says_is_set_up_so() {
    let _alone = alone();
    let place = Place::new();
    for rung in Rung::ALL.into_iter().filter(|rung| is_possible(*rung)) {
        let ladder = measured(&place, rung);
        assert_eq!(ladder.measured(), [rung]);
        assert_eq!(ladder.verdict(), Some(Outcome::Pass));
        assert_eq!(ladder.outcome, Some(LadderOutcome::Complete));
        let [block] = &ladder.blocks[..] else {
            panic!("{:?}", ladder.blocks);
        };
        let thread = &block.in_force;
        let is_real_time = rung.has(Rung::Priority);
        let policy = if is_real_time { "fifo" } else { "other" };
        assert_eq!(thread.policy, policy, "{rung:?}");
        assert_eq!(thread.priority, if is_real_time { 80 } else { 0 });
        let is_locked = rung.has(Rung::LockedMemory);
        assert_eq!(thread.locked_kib > 0, is_locked, "{rung:?}: {thread:?}");
        let is_pinned = rung.has(Rung::Affinity);
        let expected = if is_pinned {
            vec![ladder.design.cpu]
        } else {
            cpus()
        };
        assert_eq!(thread.cpus, expected, "{rung:?}");

        let counts = &block.counts;
        assert_eq!(counts.cycles, 400);
        assert_eq!(ladder.rung(rung).expect("it").response.count, 400);
        // 400 quarters of a page; the first may begin within one.
        assert!((100..=101).contains(&counts.fresh_pages), "{counts:?}");
        if is_locked {
            assert_eq!(counts.faults(), 0, "{rung:?}");
        } else {
            assert_eq!(counts.minor_faults, counts.fresh_pages, "{rung:?}");
        }
        if is_pinned {
            assert_eq!(counts.migrations, 0);
        }
        if rung.has(Rung::AbsoluteSleep) {
            // On a grid of 500 us: the last wake-up is late by less than a period that is not skipped.
            assert!(counts.periods_ns <= (counts.periods + counts.skipped + 2) * 500_000);
        } else {
            assert_eq!(counts.skipped, 0);
            assert!(counts.periods_ns >= counts.periods * 500_000);
        }
    }
}

#[test]
fn the_whole_ladder_is_measured_compared_and_shown() {
    need!(needs::rights());
    need!(needs::cpus(2));
    let _alone = alone();
    let place = Place::new();
    let flags = ["--block", "100ms", "--settle", "10ms", "-i", "100"];
    let fixed = ["ladder", "--load", "none", "-D", "12", "--seed", "7"];
    let own = ["--state", "state", "-o", "all"];
    let ended = place.run(&[&fixed[..], &flags, &own].concat());
    let ladder = read(&place, "all");
    // What chance and other load do to the control is no part of this test.
    assert!([0, 4].contains(&ended.code()), "{}", ended.stdout);
    let verdict = ladder.verdict().expect("a verdict");
    assert_eq!(i32::from(verdict.exit_code()), ended.code());
    let rungs = ladder.measured();
    assert!(rungs.len() >= 5, "{rungs:?}");
    assert_eq!(ladder.control, rungs.last().copied());
    let conditions = rungs.len() + 1;
    assert_eq!(
        ladder.design.rounds,
        12_000 / (110 * conditions as u64),
        "as many as the time has room for"
    );
    assert_eq!(
        ladder.blocks.len() as u64,
        ladder.design.rounds * conditions as u64
    );
    assert_eq!(ladder.left_out(RungLeftOut::NotInForce), 0);
    for rung in &ladder.rungs {
        let blocks = || {
            let of = |it: &&punctual_record::ladder::LadderBlock| it.rung == rung.rung;
            ladder.blocks.iter().filter(of).filter(|it| !it.is_second)
        };
        let sum: u64 = blocks().map(|it| it.counts.cycles).sum();
        assert_eq!(rung.counts.cycles, sum);
        let count: u64 = blocks().map(|it| it.figures.count).sum();
        assert_eq!(rung.response.count, count);
        assert_eq!(
            rung.response.max_ns,
            blocks().map(|it| it.figures.max_ns).max().unwrap_or(0)
        );
    }
    // Each rung with the one below it, the ends, and the control.
    assert_eq!(ladder.steps.len(), rungs.len() + 1);
    for says in ["+ priority 80", "control:", "Rust  ", "C     ", "Design"] {
        assert!(ended.stdout.contains(says), "{says}: {}", ended.stdout);
    }
    let again = place.run(&["report", "all"]).expect(0);
    let body = |text: &str| text.replace("Report        all/ladder.html\n", "");
    assert_eq!(body(&again.stdout), body(&ended.stdout));
    let page = fs::read_to_string(place.path().join("all/ladder.html")).expect("a page");
    assert!(page.contains("What each step gains"), "{page}");
    let json = place.run(&["report", "all", "--json"]).expect(0).json();
    assert_eq!(json["format"], "punctual-ladder");
    assert!(json["rungs"][0]["response"]["p50_ns"].is_u64(), "{json}");
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let _alone = alone();
    let place = Place::new();
    let fixed = ["ladder", "--load", "none", "-D", "60", "--block", "200ms"];
    let own = ["--settle", "10ms", "--state", "state", "-o", "run"];
    let running = place.start(&[&fixed[..], &own].concat());
    let file = place.path().join("run/ladder.json");
    // It is saved before the first block, and every 5 s.
    until("blocks", || {
        Ladder::read(&file).is_ok_and(|ladder| !ladder.blocks.is_empty())
    });
    running.signal(libc::SIGINT);
    let ended = running.end().expect(3);
    assert!(
        ended
            .stdout
            .contains("INCONCLUSIVE: it was ended by a signal"),
        "{}",
        ended.stdout
    );
    let ladder = read(&place, "run");
    assert_eq!(ladder.outcome, Some(LadderOutcome::Stopped));
    let whole = ladder.blocks.iter().filter(|it| it.left_out.is_none());
    assert!(whole.count() > 0, "{:?}", ladder.blocks);
}

/// Writes the mask that was there, however the test ends.
struct Restore(String);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = fs::write(WORKQUEUES, &self.0);
    }
}

#[test]
fn after_a_kill_the_interrupts_are_restored() {
    let mask = || fs::read_to_string(WORKQUEUES).unwrap_or_default();
    need!(needs::root());
    need!(needs::kernel_file(WORKQUEUES));
    need!(needs::cpus(2));
    let _alone = alone();
    let _own = Restore(mask());
    // On each of the first CPUs, so that there is something to move, also on a tuned machine.
    let first = cpus().into_iter().filter(|cpu| *cpu < 32);
    let all = first.fold(0_u32, |mask, cpu| mask | 1 << cpu);
    fs::write(WORKQUEUES, format!("{all:x}")).expect("root may");
    let before = mask();
    let place = Place::new();
    let fixed = ["ladder", "--load", "none", "-D", "60"];
    let own = [
        "--rung",
        "quiet-interrupts",
        "--state",
        "state",
        "-o",
        "run",
    ];
    let mut running = place.start(&[&fixed[..], &own].concat());
    // It is saved before its first block; before that the settings are tried once.
    let saved = place.path().join("run/ladder.json");
    until("the switch", || {
        running.is_over() || saved.exists() && mask() != before
    });
    assert!(!running.is_over(), "{:?}", running.end());
    running.signal(libc::SIGKILL);
    running.end();
    assert_ne!(mask(), before, "it was killed while the rung was measured");
    let said = place.run(&["tune", "status", "--state", "state"]).expect(0);
    assert!(said.stdout.contains(WORKQUEUES), "{}", said.stdout);
    place
        .run(&["tune", "restore", "--state", "state"])
        .expect(0);
    assert_eq!(mask(), before);
    let said = place.run(&["tune", "status", "--state", "state"]).expect(0);
    assert_eq!(said.stdout, "Nothing is changed.\n");
    // What was saved is shown.
    let shown = place.run(&["report", "run"]).expect(0);
    assert!(shown.stdout.contains("has not ended"), "{}", shown.stdout);
}

#[test]
fn an_ordinary_user_gets_the_rungs_that_need_no_right_and_is_told_why_of_the_others() {
    need!(needs::root());
    let _alone = alone();
    let place = Place::new();
    let mut command = place.command("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--bounding-set=-all", "--inh-caps=-all", "--"])
        .arg(crate::common::program())
        .args(["ladder", "--load", "none", "-D", "12", "--block", "100ms"])
        .args(["--settle", "10ms", "-i", "500", "--state", "state"])
        .args(["-o", "run"]);
    let ended = crate::common::Running::start(command).end();
    assert!(
        [0, 4].contains(&ended.code()),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    let ladder = read(&place, "run");
    let measured = ladder.measured();
    assert!(measured.contains(&Rung::AbsoluteSleep), "{measured:?}");
    assert!(!measured.contains(&Rung::Priority), "{measured:?}");
    assert!(!measured.contains(&Rung::QuietInterrupts), "{measured:?}");
    assert!(
        ended.stdout.contains("Not possible here"),
        "{}",
        ended.stdout
    );
    // The default limit of locked memory is below what this program has.
    for (rung, says) in [
        (Rung::Priority, "CAP_SYS_NICE"),
        (Rung::LockedMemory, "RLIMIT_MEMLOCK"),
    ] {
        let why = ladder.rung(rung).expect("it").not_possible.as_ref();
        let why = why.map(punctual_report::ladder::why_not);
        assert!(why.is_none_or(|it| it.contains(says)), "{rung:?}");
    }
    // The rungs above go without.
    let blocks = ladder.blocks.iter();
    assert!(blocks.clone().all(|it| it.in_force.priority == 0));
    assert_eq!(ladder.left_out(RungLeftOut::NotInForce), 0);
}
