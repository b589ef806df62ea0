//! How late a wake-up could have been: never earlier than one was, known windows are found to the
//! instruction, and the guest runs as without.

use serde_json::Value;

use super::common::{Place, flat, need, read_json};
use super::userspace::userspace;
use super::{lab, ready};

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("a number: {of}"))
}

fn total(bound: &Value) -> u64 {
    let parts = ["window_ns", "timer_ns", "served_ns"];
    parts.iter().map(|part| number(&bound[part])).sum()
}

#[test]
fn no_seed_is_later_than_the_bound_of_another_and_the_guest_runs_as_without() {
    need!(ready());
    let place = Place::new();
    let guests = ["--load", "fork,exit"];
    let work = [
        "--",
        "measure",
        "nanosleep",
        "-p",
        "80",
        "-i",
        "509",
        "-l",
        "400",
    ];
    let bound = [&["bound"], &guests[..], &["-o", "bound"], &work].concat();
    let shown = flat(&lab(&place, &bound).expect(0).stdout);
    assert!(
        shown.contains("load kernel max bound ratio window"),
        "{shown}"
    );
    let plain = ["--seeds", "2", "--no-explain", "-o", "plain"];
    lab(&place, &[&guests[..], &plain, &work].concat()).expect(0);
    let bounds = read_json(&place.path().join("bound/lab.json"));
    let plain = read_json(&place.path().join("plain/lab.json"));
    let plain = plain["cells"].as_array().expect("cells");
    for cell in bounds["cells"].as_array().expect("cells") {
        let bound = &cell["bound"];
        assert!(bound.is_object(), "{}", cell["no_bound"]);
        let (total, kernel) = (total(bound), cell["kernel"].as_str());
        let same = |it: &&Value| it["kernel"] == cell["kernel"] && it["load"] == cell["load"];
        let others: Vec<&Value> = plain.iter().filter(same).collect();
        assert_eq!(others.len(), 2);
        for other in &others {
            let max = number(&other["figures"]["max_ns"]);
            assert!(
                max <= total,
                "{kernel:?} {}: {max} of {total}",
                cell["load"]
            );
        }
        let max = number(&cell["figures"]["max_ns"]);
        if kernel == Some("rt") {
            assert!(total <= max * 5 / 2, "{kernel:?}: {max}, {total}");
        }
        let sum = |it: &Value| it["laboratory"]["fingerprint"]["result_sha256"].clone();
        assert_eq!(sum(cell), sum(others[0]), "to the byte");
        let windows = bound["windows"].as_array().expect("windows");
        assert!(windows.len() >= 3, "{bound}");
        assert!(number(&bound["wake_ups"]) >= 400, "{bound}");
    }
    // What frees memory holds the standard kernel up, and it asks before and after.
    let of = |kernel: &str, load: &str| {
        let cells = bounds["cells"].as_array().into_iter().flatten();
        let mut found = cells.filter(|it| it["kernel"] == kernel && it["load"] == load);
        found.next().expect("a cell")["bound"].clone()
    };
    let exit = of("standard", "exit");
    assert!(total(&exit) > 100 * total(&of("rt", "exit")), "{exit}");
    assert_eq!(exit["windows"][0]["opened_by"], "__cond_resched", "{exit}");
    let report = place.run(&["report", "bound"]).expect(0).stdout;
    assert!(flat(&report).contains("ratio window"), "{report}");
}

/// The kernel's hwlat tracer disables interrupts for so many microseconds, again and again.
const HWLAT: &str = "T=/sys/kernel/tracing/; echo 300 >$T/hwlat_detector/width; \
    echo 5000 >$T/hwlat_detector/window; echo hwlat >$T/current_tracer; while :; do :; done";

#[test]
fn a_window_of_known_length_is_found_and_named() {
    need!(ready());
    let place = Place::new();
    userspace(&place.path().join("root"));
    let flags = ["bound", "--kernel", "rt", "--rootfs", "root", "-o", "a"];
    let work = ["--", "measure", "-l", "300", "-p", "80"];
    let words = [&flags[..], &["--load", HWLAT], &work].concat();
    lab(&place, &words).expect(0);
    let record = read_json(&place.path().join("a/lab.json"));
    let bound = &record["cells"][0]["bound"];
    let window = &bound["windows"][0];
    let length = number(&window["length_ns"]);
    // It ends with the first reading of the clock after the time.
    assert!((300_000..305_000).contains(&length), "{bound}");
    let opened = window["opened_by"].as_str().expect("a name");
    assert!(opened.contains("kthread_fn"), "{bound}");
    let max = number(&record["cells"][0]["figures"]["max_ns"]);
    assert!(
        (max..max + 310_000).contains(&total(bound)),
        "{max}: {bound}"
    );
}

#[test]
fn what_has_no_bound_says_why() {
    need!(ready());
    for (words, status, said) in [
        (&["--explain"][..], 64, "--explain, --no-explain"),
        (&["--cpus", "2"], 64, "a probe on one processor"),
        (&["--", "/bin/true"], 64, "a probe on one processor"),
        (
            &[
                "--kernel",
                "rt",
                "--load",
                "idle",
                "--",
                "measure",
                "-l",
                "100",
                "--best-effort",
                "--policy",
                "other",
            ],
            1,
            "the probe has no real-time priority",
        ),
    ] {
        let place = Place::new();
        let ended = lab(&place, &[&["bound", "-o", "a"], words].concat()).expect(status);
        let text = flat(&format!("{}{}", ended.stdout, ended.stderr));
        assert!(text.contains(said), "{words:?}: {text}");
    }
}
