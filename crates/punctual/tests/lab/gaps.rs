//! The kernel's own tracers, on kernels with and without them: hwlat instead
//! of a polling thread, timerlat next to our wake-ups, and nothing left behind.

use super::common::{Place, need, needs};
use super::{lab, ready};
use punctual_record::{CrossCheckFault, CrossFigureName, KernelTracer, Method, Run};

fn run(place: &Place, kernel: &str) -> Run {
    place.run_of_path(&format!("{kernel}/{kernel}/idle"))
}

#[test]
fn hardware_is_measured_by_hwlat_where_there_is_one_and_by_polling_elsewhere() {
    need!(ready());
    for (kernel, method) in [("rt", Method::Hwlat), ("standard", Method::Polling)] {
        let place = Place::new();
        let lab_flags = ["--kernel", kernel, "-o", kernel, "--"];
        let words = ["measure", "hardware", "-D", "1", "--load", "none"];
        lab(&place, &[&lab_flags[..], &words].concat());
        let run = run(&place, kernel);
        let gaps = run.gaps.expect("gaps");
        assert_eq!(gaps.method, method, "{kernel}");
        let watched = gaps.threads[0];
        assert!(watched.span_ns >= 900_000_000, "{watched:?}");
        let parts = watched.polled_ns + watched.gap_ns + watched.unwatched_ns;
        assert_eq!(parts, watched.span_ns);
        let share = watched.watched_ns() as f64 / watched.span_ns as f64;
        let asked = gaps.runtime_ns as f64 / gaps.period_ns as f64;
        assert!((share - asked).abs() < 0.1, "{share} of {asked}");
    }
}

#[test]
fn timerlat_agrees_or_is_reported_as_missing() {
    need!(ready());
    let words = ["measure", "-l", "500", "--cross-check", "--load", "none"];
    let place = Place::new();
    let flags = ["--kernel", "rt", "-o", "rt", "--"];
    lab(&place, &[&flags[..], &words].concat());
    let check = run(&place, "rt").cross_check.expect("a comparison");
    assert_eq!(
        (check.tracer, check.missing),
        (KernelTracer::Timerlat, None)
    );
    assert_eq!(check.lost, 0);
    assert!((450..=550).contains(&check.samples), "{}", check.samples);
    let names: Vec<_> = check.figures.iter().map(|f| f.name).collect();
    use CrossFigureName::{Maximum, Median, P99};
    assert_eq!(names, [Median, P99, Maximum]);
    for figure in &check.figures {
        // In virtual time; the two use different paths through the same kernel.
        let ratio = figure.ratio.expect("a ratio");
        assert!((0.3..3.0).contains(&ratio), "{figure:?}");
    }
    let place = Place::new();
    let flags = ["--kernel", "standard", "-o", "standard", "--"];
    lab(&place, &[&flags[..], &words].concat());
    let check = run(&place, "standard").cross_check.expect("a comparison");
    assert_eq!(check.figures, []);
    let missing = check.missing.expect("why");
    assert!(
        matches!(&missing, CrossCheckFault::Failed { error } if error.contains("no timerlat tracer")),
        "{missing:?}"
    );
}

/// Every setting that hwlat needs, the existing instances, and our journals.
const SCRIPT: &str = "\
    T=/sys/kernel/tracing
    wait_for() { local end=$((SECONDS+$1)); while ((SECONDS<end)); do :; done; }
    state() {
        echo \"$1: $(<$T/tracing_thresh) $(<$T/hwlat_detector/width) \
            $(<$T/hwlat_detector/window) $(<$T/hwlat_detector/mode)\" \
            $T/instances/* /run/punctual/*
    }
    cd /tmp
    state before
    /init measure hardware -q -o /tmp/one -D 60 & process=$!
    wait_for 4; state during
    kill -9 $process; wait_for 4; state killed
    /init measure hardware -q -o /tmp/two -D 60 & process=$!
    wait_for 4; kill -INT $process; wait $process; state interrupted";

#[test]
fn hwlats_settings_are_restored_after_any_end() {
    need!(ready());
    need!(needs::program("bash"));
    let place = Place::new();
    let ended = lab(
        &place,
        &["--kernel", "rt", "-o", "rt", "--", "bash", "-c", SCRIPT],
    );
    let state = |name: &str| {
        let lines = ended.stdout.lines();
        let mut found = lines.filter_map(|line| line.strip_prefix(&format!("{name}: ")));
        found
            .next()
            .unwrap_or_else(|| panic!("{name}: {}", ended.stdout))
    };
    let before = state("before");
    assert!(
        state("during").contains("/instances/punctual-"),
        "{}",
        ended.stdout
    );
    assert!(state("during").contains(".journal"), "{}", ended.stdout);
    assert_eq!(state("killed"), before);
    assert_eq!(state("interrupted"), before);
}
