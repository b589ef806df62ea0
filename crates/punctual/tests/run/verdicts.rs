//! Requirements, verdicts and exit statuses; and the contents of each output.

use crate::common;
use crate::common::needs::{self, Absent};
use crate::common::{Place, counts, cpus, each, event_kinds, in_force, need, read_json};

/// A hundred times less often than usual, so that no period is skipped unless the machine stands
/// still for that long. How late a skipped one was is recorded: no limit here is near it.
const CALM: [&str; 2] = ["-i", "100ms"];

#[test]
fn a_deadline_without_a_miss_is_a_pass() {
    need!(needs::rights());
    let place = Place::new();
    let flags = [
        "measure",
        "-D",
        "1",
        "--deadline",
        "500ms",
        "--miss",
        "0.5",
        "-q",
    ];
    let ended = place.run(&[&flags[..], &CALM].concat());
    let record = place.record();
    all_in_force(&record);
    let ended = ended.expect(0);
    assert!(ended.stdout.starts_with("PASS: "), "{}", ended.stdout);
    assert!(ended.stdout.contains("500 ms") && ended.stdout.contains("95 % confidence"));
    assert_eq!(record["verdict"]["outcome"], "PASS");
    assert_eq!(record["state"]["state"], "finished");
}

#[test]
fn a_run_keeps_blocks_of_time_and_no_sample_is_in_two() {
    let place = Place::new();
    place.run(&[
        "measure",
        "-q",
        "-D",
        "2",
        "--best-effort",
        "--deadline",
        "500ms",
    ]);
    let record = place.record();
    let blocks = record["blocks"]["latency"].as_array().expect("blocks");
    assert!((2..=8).contains(&blocks.len()), "{}", blocks.len());
    assert_eq!(record["blocks"]["width_ns"], 250_000_000);
    let count = |of: &serde_json::Value| of["count"].as_u64().expect("a count");
    let in_blocks: u64 = blocks.iter().map(count).sum();
    let threads = record["threads"].as_array().expect("threads");
    let in_all: u64 = threads.iter().map(|thread| count(&thread["latency"])).sum();
    assert!(blocks.iter().all(|block| count(block) > 0));
    assert!(
        in_blocks > in_all / 4 && in_blocks <= in_all,
        "{in_blocks} of {in_all}"
    );
}

/// What a run needs to be valid.
#[track_caller]
fn all_in_force(record: &serde_json::Value) {
    for name in ["priority", "locked-memory", "cpu-dma-latency"] {
        assert!(in_force(record, name), "{name}: {}", record["demands"]);
    }
}

/// Runs `measure` with the flags, and returns the verdict and its line.
fn outcome(flags: &[&str], code: i32) -> (serde_json::Value, String) {
    let place = Place::new();
    let ended = place.run(&[&["measure", "-q"], flags, &CALM].concat());
    let record = place.record();
    all_in_force(&record);
    let word = record["verdict"]["outcome"].as_str().expect("a verdict");
    let line = ended.expect(code).stdout;
    assert!(line.starts_with(&format!("{word}: ")), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    (record["verdict"].clone(), line)
}

#[test]
fn every_verdict_has_its_exit_status() {
    need!(needs::rights());
    let table: [(&[&str], i32, &str); 10] = [
        (&["-D", "1", "--deadline", "1us"], 2, "FAIL"),
        (&["-D", "1", "--deadline", "1us", "--miss", "0"], 2, "FAIL"),
        (
            &["-D", "1", "--deadline", "1s", "--miss", "1e-9"],
            3,
            "INCONCLUSIVE",
        ),
        (&["-D", "1", "--max", "500ms"], 0, "PASS"),
        (&["-D", "1", "--max", "1h"], 3, "INCONCLUSIVE"),
        (&["-D", "1", "--max", "1ns"], 2, "FAIL"),
        (&["-D", "1", "--percentile", "50=500ms"], 0, "PASS"),
        (&["-D", "1", "--percentile", "50=1ns"], 2, "FAIL"),
        (
            &["-D", "1", "--percentile", "99.9999=1h"],
            3,
            "INCONCLUSIVE",
        ),
        (
            &["-D", "1", "--percentile", "50=1h", "--max", "1ns"],
            2,
            "FAIL",
        ),
    ];
    for (flags, code, word) in table {
        let (verdict, _) = outcome(flags, code);
        assert_eq!(verdict["outcome"], word, "{flags:?}: {verdict}");
        let needed = &verdict["needed_seconds"];
        assert!(
            word == "INCONCLUSIVE" || needed.is_null(),
            "{flags:?}: {verdict}"
        );
    }
}

#[test]
fn an_inconclusive_verdict_says_how_long_to_run() {
    need!(needs::rights());
    let (verdict, line) = outcome(&["-D", "1", "--deadline", "1h", "--miss", "1e-6"], 3);
    assert!(
        verdict["needed_seconds"].as_u64().is_some_and(|s| s > 100),
        "{verdict}"
    );
    assert!(line.contains(" longer: enough if "), "{line}");
}

#[test]
fn without_a_requirement_there_is_no_verdict_and_no_failure() {
    need!(needs::rights());
    let place = Place::new();
    let ended = place.run(&[&["measure", "-l", "4", "-q"], &CALM[..]].concat());
    let record = place.record();
    all_in_force(&record);
    let line = ended.expect(0).stdout;
    assert!(
        line.starts_with("No verdict (nothing was required)"),
        "{line}"
    );
    assert!(record["verdict"].is_null());
}

#[test]
fn a_verdict_at_best_effort_says_so() {
    let (place, user) = need!(unprivileged());
    let flags = [
        "measure",
        "-D",
        "1",
        "--deadline",
        "500ms",
        "--miss",
        "0.99",
        "--best-effort",
    ];
    let ended = user(&place, &[&flags[..], &["-q"], &CALM].concat()).expect(0);
    let wanted =
        "under no load, at best effort (SCHED_OTHER, memory not locked, idle states not held off)";
    assert!(ended.stdout.starts_with("PASS: "), "{}", ended.stdout);
    assert!(ended.stdout.contains(wanted), "{}", ended.stdout);
    let shown = place
        .run(&["report", place.run_directory().to_str().unwrap()])
        .expect(0);
    assert!(shown.stdout.contains("best effort"), "{}", shown.stdout);
}

#[test]
fn best_effort_with_everything_in_force_is_a_normal_run() {
    need!(needs::rights());
    let place = Place::new();
    let flags = [
        "measure",
        "-D",
        "1",
        "--deadline",
        "500ms",
        "--miss",
        "0.99",
        "--best-effort",
        "-q",
    ];
    let ended = place.run(&[&flags[..], &CALM].concat());
    let record = place.record();
    all_in_force(&record);
    assert!(!ended.expect(0).stdout.contains("effort"));
}

type RunAs = fn(&Place, &[&str]) -> common::Ended;

/// A place in which the program runs as `nobody`, with ordinary limits.
fn unprivileged() -> Result<(Place, RunAs), Absent> {
    needs::root()?;
    needs::program("setpriv")?;
    needs::program("prlimit")?;
    let place = Place::new();
    // The build's directory may be closed to other users.
    std::fs::create_dir(place.path().join("bin")).unwrap();
    common::copy_program(common::program(), &place.path().join("bin/punctual"));
    let run: RunAs = |place, arguments| {
        let mut command = place.command("prlimit");
        command.args(["--memlock=8388608", "--rtprio=0", "setpriv"]);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(["--bounding-set=-all", "--inh-caps=-all"]);
        command
            .arg(place.path().join("bin/punctual"))
            .args(arguments);
        common::Running::start(command).end()
    };
    Ok((place, run))
}

#[test]
fn loops_threads_and_cpus_are_as_requested() {
    let cpus = cpus();
    let last = cpus.last().expect("a CPU").to_string();
    let place = Place::new();
    let flags = [
        "measure", "-l", "250", "-t", "3", "-a", &last, "-p", "70", "-q",
    ];
    place.run(&flags);
    let record = place.record();
    assert_eq!(counts(&record), [250, 250, 250]);
    // A thread that was late for its warm-up shortens it, and never counts it.
    assert!(each(&record, "warm_up").iter().all(|cycles| *cycles <= 16));
    assert_eq!(record["request"]["priority"], 70);
    let on: Vec<String> = each(&record, "cpu").iter().map(u64::to_string).collect();
    assert_eq!(on, [last.as_str(); 3]);
    let mut tids = each(&record, "tid");
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids.len(), 3, "three threads");
}

#[test]
fn without_a_list_each_allowed_cpu_has_its_thread() {
    let cpus = cpus();
    let place = Place::new();
    place.run(&["measure", "-l", "20", "-q"]);
    let probed = each(&place.record(), "cpu");
    // One is left out if there are four or more.
    let expected = if cpus.len() < 4 {
        cpus.len()
    } else {
        cpus.len() - 1
    };
    assert_eq!(probed.len(), expected);
    assert!(probed.iter().all(|cpu| cpus.contains(&(*cpu as usize))));
}

#[test]
fn json_output_is_only_json_and_contains_the_run() {
    let place = Place::new();
    let flags = [
        "measure",
        "-l",
        "50",
        "--json",
        "--deadline",
        "500ms",
        "-o",
        "run",
    ];
    let ended = place.run(&flags);
    assert_eq!(ended.stderr, "");
    let summary = ended.json();
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(summary["format"], "punctual-run");
    assert!(counts(&summary).iter().all(|count| *count == 50));
    // The words stand beside the data of the verdict, and nowhere in the record.
    let mut verdict = summary["verdict"].clone();
    let fields = verdict.as_object_mut().expect("a verdict");
    let sentence = fields.remove("sentence").expect("its words");
    let word = record["verdict"]["outcome"].as_str().expect("an outcome");
    assert!(
        sentence.as_str().is_some_and(|it| it.starts_with(word)),
        "{sentence}"
    );
    assert!(fields.remove("reasons").is_some_and(|it| it.is_array()));
    let requirement = &mut verdict["requirements"][0];
    let requirement = requirement.as_object_mut().expect("a requirement");
    assert!(
        requirement
            .remove("sentence")
            .is_some_and(|it| it.is_string())
    );
    assert_eq!(verdict, record["verdict"]);
    let demands = |of: &serde_json::Value| of["demands"].as_array().cloned().unwrap_or_default();
    assert_eq!(demands(&summary).len(), demands(&record).len());
    for (said, recorded) in demands(&summary).iter_mut().zip(demands(&record)) {
        // The words stand beside the figures.
        let words = said.as_object_mut().and_then(|said| said.remove("words"));
        assert!(words.is_some_and(|words| words["found"].is_string()));
        assert_eq!(*said, recorded);
    }
    assert!(
        summary["threads"][0]["latency"]["encoded"].is_null(),
        "{summary}"
    );
}

#[test]
fn live_prints_cyclictests_lines() {
    let place = Place::new();
    let ended = place.run(&["measure", "-D", "6", "--live", "-a", &cpus()[0].to_string()]);
    let line = ended.stdout.lines().next().expect("a line");
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert!(line.starts_with("T: 0 ("), "{}", ended.stdout);
    for name in ["P:", "I:1000", "C:", "Min:", "Act:", "Avg:", "Max:"] {
        assert!(fields.iter().any(|field| field.starts_with(name)), "{line}");
    }
}

#[test]
fn nothing_that_is_printed_to_a_pipe_is_coloured() {
    let place = Place::new();
    let ended = place.run(&["measure", "-l", "50"]);
    assert!(!ended.stdout.contains('\x1b'), "{}", ended.stdout);
    assert!(
        ended.stdout.lines().all(|line| line.chars().count() <= 80),
        "{}",
        ended.stdout
    );
}

#[test]
fn verbose_says_on_standard_error_what_is_done() {
    let place = Place::new();
    let ended = place.run(&["measure", "-l", "50", "-v", "-q", "--load", "cpu"]);
    let at = |words: &str| {
        let found = ended.stderr.find(words);
        found.unwrap_or_else(|| panic!("{words}: {}", ended.stderr))
    };
    // Setup next to busy processes would take many seconds.
    let order = [
        "reading the machine's settings",
        "setting up the probe threads",
        "starting cpu",
        "analysing",
    ];
    assert!(order.map(at).is_sorted(), "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().count(), 1);
}

#[test]
fn samples_are_all_written() {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let place = Place::new();
    place.run(&["measure", "-l", "700", "--samples", "-q"]);
    let directory = place.run_directory();
    let record = place.record();
    let mut rows = 0;
    let parts = std::fs::read_dir(directory.join("samples")).expect("the parts");
    for part in parts {
        let path = part.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "parquet")
        {
            let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
            rows += reader.metadata().file_metadata().num_rows();
        }
    }
    assert_eq!(
        rows as u64,
        counts(&record).iter().sum::<u64>(),
        "{:?}",
        place.entries()
    );
    // Time that the host takes is not the writer's fault.
    assert!(
        event_kinds(&record).iter().all(|kind| *kind == "steal"),
        "{}",
        record["events"]
    );
}

#[test]
fn the_record_has_the_seed_which_repeats_the_draws() {
    let place = Place::new();
    for output in ["one", "two"] {
        place.run(&[
            "measure",
            "-l",
            "100",
            "--interval",
            "primes",
            "--seed",
            "7",
            "-o",
            output,
            "-q",
        ]);
    }
    let [one, two] = ["one", "two"].map(|run| read_json(&place.path().join(run).join("run.json")));
    assert_eq!(one["request"]["interval"]["seed"], 7);
    assert_eq!(one["request"]["interval"], two["request"]["interval"]);
    // If no period was skipped, the same draws took the same time.
    if each(&one, "missed") == each(&two, "missed") && each(&one, "missed").iter().all(|m| *m == 0)
    {
        assert_eq!(each(&one, "measured_ns"), each(&two, "measured_ns"));
    }
    assert_ne!(each(&one, "measured_ns")[0], 100_000_000, "not fixed");
}
