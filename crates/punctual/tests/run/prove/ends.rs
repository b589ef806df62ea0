//! Every end of an experiment leaves the machine as it was, or says what is left.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use punctual_record::experiment::{ExperimentOutcome, LeftOut, Phase};

use super::planted::Planted;
use super::{SECOND, begin};
use crate::alone::alone;
use crate::common::{Place, Running, cpus, need, needs, program, until};

/// Long enough that no test waits for its end.
const LONG: [&str; 3] = ["-D", "100", "--no-explain"];

/// Waits until the knob was switched for this many times.
fn await_switches(planted: &Planted, running: &mut Running, switches: usize) {
    let (mut seen, mut last) = (0, planted.value());
    until("a switch", || {
        assert!(!running.is_over(), "it ended before it switched");
        let now = planted.value();
        // Empty between truncation and write.
        if !now.is_empty() && now != last {
            seen += 1;
            last = now;
        }
        seen >= switches
    });
}

fn status(place: &Place) -> String {
    let shown = place.run(&["tune", "status", "--state", "state"]);
    shown.expect(0).stdout
}

#[test]
fn an_interrupt_restores_and_keeps_what_was_measured() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let planted = Planted::begin(place.path(), &cpus());
    let mut running = begin(&place, &planted, &LONG);
    await_switches(&planted, &mut running, 3);
    assert_eq!(planted.value(), "0", "it is on");
    running.signal(libc::SIGINT);
    let ended = running.end().expect(3);
    assert_eq!(planted.value(), "1");
    assert!(
        ended.stdout.contains("INCONCLUSIVE: it was ended"),
        "{}",
        ended.stdout
    );
    assert_eq!(status(&place), "Nothing is changed.\n");
    let run = place.run_of();
    let experiment = run.experiment.as_ref().expect("an experiment");
    assert_eq!(experiment.outcome, ExperimentOutcome::Stopped);
    let whole = experiment
        .blocks
        .iter()
        .filter(|it| it.phase == Phase::Pairs && it.left_out.is_none());
    assert!(whole.clone().count() >= 2, "{:?}", experiment.blocks);
    assert!(
        whole
            .filter_map(|it| it.figures.as_ref())
            .all(|it| it.count > 100)
    );
    assert!(experiment.results.iter().all(|it| it.effects.is_empty()));
    // The block of the interrupt was not measured to its end.
    let last = experiment.blocks.last().expect("a block");
    assert!(last.left_out.is_some(), "{last:?}");
}

/// A stop of the whole process falls into blocks that say nothing then.
#[test]
fn blocks_in_which_punctual_was_stopped_are_left_out() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let planted = Planted::begin(place.path(), &cpus());
    let mut running = begin(&place, &planted, &LONG);
    await_switches(&planted, &mut running, 1);
    running.stop();
    sleep(Duration::from_secs(3));
    running.signal(libc::SIGCONT);
    // Two more: the slots after the stop are used as those before.
    await_switches(&planted, &mut running, 2);
    running.signal(libc::SIGINT);
    running.end().expect(3);
    assert_eq!(planted.value(), "1");
    let run = place.run_of();
    let start_ns = run.start_ns.expect("a start");
    let stops = run.stops.as_ref().expect("a stop");
    let longest = stops.list.iter().max_by_key(|stop| stop.length_ns);
    let longest = longest.expect("one");
    assert!(longest.length_ns > 2_900_000_000, "{stops:?}");
    let experiment = run.experiment.as_ref().expect("an experiment");
    let slot_ns = experiment.slot_ns();
    let (from, to) = (longest.at_ns, longest.at_ns + longest.length_ns);
    let mut touched = 0;
    for block in &experiment.blocks {
        let is_touched = block.at_ns < to && from < block.at_ns + slot_ns;
        touched += u32::from(is_touched);
        assert!(
            !is_touched || block.left_out == Some(LeftOut::ProcessStopped),
            "{block:?}"
        );
    }
    assert!(
        touched >= 1,
        "{longest:?} {start_ns}: {:?}",
        experiment.blocks
    );
    let slots: Vec<u64> = experiment
        .blocks
        .iter()
        .map(|it| it.at_ns / slot_ns)
        .collect();
    let passed = slots.windows(2).map(|two| two[1] - two[0]).max();
    assert!(
        passed.is_some_and(|it| it >= 2),
        "two slots have passed: {slots:?}"
    );
}

#[test]
fn a_program_that_writes_the_same_file_ends_it_and_is_left_alone() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let planted = Planted::begin(place.path(), &cpus());
    let mut running = begin(&place, &planted, &LONG);
    await_switches(&planted, &mut running, 1);
    planted.set("7\n");
    let ended = running.end().expect(1);
    let path = place.path().join("knob").display().to_string();
    let says = format!("another program changed {path} to `7`");
    let words = ended.stdout.split_whitespace().collect::<Vec<_>>();
    assert!(words.join(" ").contains(&says), "{}", ended.stdout);
    assert_eq!(planted.value(), "7", "not ours");
    let experiment = place.run_of().experiment.expect("an experiment");
    let ExperimentOutcome::Conflict { setting, found } = &experiment.outcome else {
        panic!("{:?}", experiment.outcome);
    };
    assert_eq!(setting.shown(found), "7");
    // It was on: its original is still known.
    let left = status(&place);
    assert!(left.contains("changed by another program"), "{left}");
    place
        .run(&["tune", "restore", "--force", "--state", "state"])
        .expect(0);
    assert_eq!(planted.value(), "1");
}

#[test]
fn a_budget_too_small_for_the_effect_is_refused_before_anything_is_switched() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let planted = Planted::begin(place.path(), &cpus());
    let wanted = ["--effect", "1", "--on", "excess"];
    let flags = [&LONG[..], &wanted].concat();
    let begun = Instant::now();
    let ended = begin(&place, &planted, &flags).end().expect(3);
    assert!(
        begun.elapsed() < Duration::from_secs(50),
        "it ends after its pilot"
    );
    let log = planted.end();
    assert_eq!(log.len(), 1, "{log:?}");
    let words = ended.stdout.split_whitespace().collect::<Vec<_>>();
    let words = words.join(" ");
    let experiment = place.run_of().experiment.expect("an experiment");
    let ExperimentOutcome::BudgetTooSmall { needed_ns } = experiment.outcome else {
        panic!("{:?}", experiment.outcome);
    };
    // On a busy host latencies may vary so much that no budget would do.
    let advice = match needed_ns {
        Some(_) => "give -D",
        None => "ask for a larger effect",
    };
    for says in ["a change of 1 % in excess", advice, "Nothing was switched"] {
        assert!(words.contains(says), "{says}: {words}");
    }
    assert!(needed_ns.is_none_or(|needed_ns| needed_ns > 100 * SECOND));
    assert_eq!(status(&place), "Nothing is changed.\n");
}

/// Experiments that are killed, and how many at the same time.
const KILLS: u32 = 20;
const AT_ONCE: u32 = 10;

/// Kills an experiment after `$DELAY` s from its first switch, and shows what is left, also of its
/// record.
const KILLED: &str = r#"
mount -t tmpfs none /var/lib || exit 77
"$PUNCTUAL" prove "$PWD/knob=0" -D 100 --pilot 7 --block 1 --settle 200ms --load none -i 2000 \
    --no-explain -q -o run > prove.out 2>&1 &
pid=$!
waits=0
until grep -q 0 knob; do
    sleep 0.02
    waits=$((waits + 1))
    [ $waits -lt 2500 ] && kill -0 $pid || { cat prove.out; exit 1; }
done
sleep "$DELAY"
kill -9 $pid
wait $pid
cp knob killed
"$PUNCTUAL" report run > report || exit 1
"$PUNCTUAL" check > /dev/null 2> check.err
"$PUNCTUAL" tune status > status
"$PUNCTUAL" tune restore > restore || exit 1
"$PUNCTUAL" tune status > after
"$PUNCTUAL" check > /dev/null 2> check2.err
exit 0
"#;

#[test]
fn after_a_kill_at_any_instant_the_left_over_is_named_and_restored() {
    need!(needs::rights());
    need!(needs::root());
    need!(needs::mounts());
    let _alone = alone();
    let mut changed = 0;
    for batch in 0..KILLS / AT_ONCE {
        changed += killed_at_once(batch);
    }
    println!("killed with the knob on: {changed} of {KILLS}");
    assert!(changed >= KILLS / 10, "no kill came while the knob was on");
}

/// Kills several experiments; how many of them while the knob was on.
fn killed_at_once(batch: u32) -> u32 {
    // Fractions of a slot of 1.2 s, over two of them.
    let delay = |at| {
        format!(
            "{:.3}",
            f64::from((batch * AT_ONCE + at) * 479 % 2400) / 1000.0
        )
    };
    let begin = |at| (Place::new(), delay(at));
    let places: Vec<_> = (0..AT_ONCE).map(begin).collect();
    let running: Vec<_> = places
        .iter()
        .map(|(place, delay)| {
            fs::write(place.path().join("knob"), "1\n").expect("a knob");
            let script = Command::new("unshare")
                .args(["-m", "sh", "-c", KILLED])
                .env("PUNCTUAL", program())
                .env("DELAY", delay)
                .current_dir(place.path())
                .stdin(Stdio::null())
                .spawn();
            // They don't begin at the same instant.
            sleep(Duration::from_millis(170));
            script.expect("unshare")
        })
        .collect();
    let codes: Vec<_> = running
        .into_iter()
        .map(|mut it| it.wait().expect("it").code())
        .collect();
    let mut changed = 0;
    for ((place, delay), code) in places.iter().zip(codes) {
        assert_eq!(code, Some(0), "{delay}: {:?}", place.entries());
        changed += u32::from(left_over_is_right(place.path(), delay));
    }
    changed
}

/// Whether the knob was on when the process was killed.
#[track_caller]
fn left_over_is_right(folder: &Path, delay: &str) -> bool {
    let text = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
    assert!(
        text("report").contains("has not ended"),
        "{}",
        text("report")
    );
    let (killed, said) = (text("killed"), text("check.err"));
    let was_on = killed.trim() == "0";
    if was_on {
        assert_eq!(said.lines().count(), 1, "{delay}: {said}");
        assert!(said.contains("a punctual that was killed left"), "{said}");
        assert!(said.contains("punctual tune restore"), "{said}");
        assert!(text("status").contains("0 (was 1)"), "{}", text("status"));
        assert!(
            text("restore").contains("restored to 1"),
            "{}",
            text("restore")
        );
    } else {
        assert_eq!(killed.trim(), "1", "{delay}");
        assert_eq!(said, "", "{delay}");
        assert!(text("status").contains("1, the original"), "{delay}");
    }
    assert_eq!(text("knob").trim(), "1", "{delay}");
    assert_eq!(text("after"), "Nothing is changed.\n", "{delay}");
    assert_eq!(text("check2.err"), "", "{delay}");
    was_on
}
