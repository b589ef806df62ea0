//! The metrics of Prometheus's own form, before its own programs: `promtool check metrics`, and
//! node_exporter's textfile collector, started by hand and read once.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use punctual_record::Run;
use punctual_report::formats::{Format, Metrics, write};
use punctual_stats::verdict::Outcome;

use crate::needs::Absent;
use crate::support::{latencies, run, run_of, thread};

/// A program of the path, or one that `make test` has unpacked.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/usr/bin"));
    let mut found = places.into_iter().map(|place| place.join(program));
    let found = found.find(|file| file.is_file());
    if found.is_none() {
        Absent::program(program).report();
    }
    found
}

/// Runs whose metrics differ in kind: names with all that must be escaped, a FAIL, no verdict.
fn runs() -> Vec<(&'static str, Run)> {
    let late = run_of(vec![thread(0, &latencies(1, 10_000, 90_000_000), 512)]);
    let mut bare = run(1);
    bare.verdict = None;
    bare.system.hostname = "back\\slash \"quote\" line\nend".to_owned();
    let watch = crate::watched::hostile();
    vec![
        ("pass", run(1)),
        ("fail", late),
        ("bare", bare),
        ("watch", watch),
    ]
}

fn metrics(run: &Run) -> String {
    write(Format::Prometheus, run).unwrap()
}

#[test]
fn promtool_finds_nothing_to_say() {
    let Some(promtool) = find("promtool") else {
        return;
    };
    for (name, run) in runs() {
        let mut child = Command::new(&promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let text = metrics(&run);
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let said = child.wait_with_output().unwrap();
        let words = String::from_utf8_lossy(&said.stderr) + String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success(), "{name}: {words}");
        assert_eq!(words.trim(), "", "{name}");
    }
}

/// A node_exporter of ours; ended when dropped.
struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What it serves of one file.
fn scraped(program: &Path, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("punctual.prom"), text).unwrap();
    // Free a moment ago; where somebody else takes it, the exporter ends, and another is tried.
    for _ in 0..5 {
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let mut exporter = Exporter(
            Command::new(program)
                .arg("--collector.disable-defaults")
                .arg("--collector.textfile")
                .arg(format!(
                    "--collector.textfile.directory={}",
                    folder.path().display()
                ))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let patience = Instant::now() + Duration::from_secs(60);
        while exporter.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < patience, "it doesn't answer");
            if let Ok(page) = ask(port) {
                return page;
            }
            sleep(Duration::from_millis(20));
        }
    }
    panic!("node_exporter does not start");
}

fn ask(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[test]
fn node_exporter_takes_the_whole_file() {
    let Some(program) = find("prometheus-node-exporter") else {
        return;
    };
    for (name, run) in runs() {
        let text = metrics(&run);
        let page = scraped(&program, &text);
        assert!(
            page.contains("node_textfile_scrape_error 0"),
            "{name}: {page}"
        );
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples: Vec<&str> = samples.collect();
        assert!(samples.len() > 30, "{name}");
        for sample in samples {
            // Labels come back sorted, and numbers in their shortest form.
            let family = sample.split(['{', ' ']).next().unwrap();
            let served = page
                .lines()
                .filter(|line| line.starts_with(&format!("{family}{{")));
            let written = text
                .lines()
                .filter(|line| line.starts_with(&format!("{family}{{")));
            assert_eq!(served.count(), written.count(), "{name}: {family}");
        }
        let outcome = |word: &str, value: u8| {
            page.lines().any(|line| {
                line.starts_with("punctual_verdict{")
                    && line.contains(&format!("outcome=\"{word}\""))
                    && line.ends_with(&format!(" {value}"))
            })
        };
        let judged = run.verdict.as_ref().map(|verdict| verdict.outcome);
        let is = |outcome: Outcome| judged == Some(outcome);
        assert_eq!(outcome("PASS", 1), is(Outcome::Pass), "{page}");
        assert_eq!(outcome("FAIL", 1), is(Outcome::Fail), "{page}");
        let stated = judged.is_some() && !is(Outcome::Invalid);
        assert_eq!(outcome("INVALID", 0), stated, "{page}");
    }
}

/// Why there is a form of its own: the older collector refuses the other as a whole. A newer one
/// may take it, which is no fault.
#[test]
fn what_openmetrics_costs_there_is_known() {
    let Some(program) = find("prometheus-node-exporter") else {
        return;
    };
    let page = scraped(&program, &write(Format::OpenMetrics, &run(1)).unwrap());
    let refused = page.contains("node_textfile_scrape_error 1");
    let taken = page.contains("punctual_latency_seconds_count");
    assert!(refused != taken, "{page}");
}

/// The values of a series that counts, in the order of its edges.
fn counts(text: &str) -> Vec<u64> {
    let counted = |line: &&str| line.contains("_bucket{") || line.contains("_total{");
    let lines = text.lines().filter(counted);
    let value = |line: &str| line.rsplit(' ').next().and_then(|it| it.parse().ok());
    lines.filter_map(value).collect()
}

/// Prometheus takes a count that falls for a restart, and adds all of it once more.
#[test]
fn no_count_of_a_run_under_way_falls() {
    let fell = |before: &str, after: &str| {
        let (before, after) = (counts(before), counts(after));
        assert_eq!(before.len(), after.len());
        before
            .iter()
            .zip(&after)
            .any(|(before, after)| after < before)
    };
    let mut straddling = 0;
    for latency_ns in (98_000..102_000).step_by(100) {
        let mut under_way = run_of(vec![thread(0, &[5_000, latency_ns, latency_ns], 0)]);
        let later = thread(0, &[5_000, latency_ns, latency_ns, 90_000_000], 0);
        let mut metrics = Metrics::default();
        let before = (
            metrics.write(&under_way).unwrap(),
            self::metrics(&under_way),
        );
        assert_eq!(before.0, before.1);
        under_way.threads[0].latency = later.latency;
        straddling += u32::from(fell(&before.1, &self::metrics(&under_way)));
        let after = metrics.write(&under_way).unwrap();
        assert!(!fell(&before.0, &after), "{latency_ns}: {after}");
    }
    // Without the memory of what was written, counts did fall.
    assert!(straddling > 0);
}

#[test]
fn no_two_series_have_the_same_labels() {
    let mut run = crate::watched::program();
    let watch = run.watch.as_mut().unwrap();
    let first = watch.threads[0].task.clone();
    for watched in &mut watch.threads {
        watched.task = first.clone();
    }
    let text = metrics(&run);
    let mut series: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .collect();
    let all = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), all);
    assert!(text.contains(",nth=\"2\""), "{text}");
    // What only a watch has.
    for name in [
        "punctual_start_time_seconds",
        "punctual_events_total",
        "punctual_unfollowed_threads",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
}

#[test]
fn threads_of_which_only_switches_are_known_are_not_followed_either() {
    let mut run = crate::watched::program();
    let mut unfollowed = |beyond, switches| {
        let watch = run.watch.as_mut().unwrap();
        (watch.beyond, watch.unfollowed) = (beyond, switches);
        let text = metrics(&run);
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("punctual_unfollowed_threads{"));
        let (_, count) = line.unwrap().rsplit_once(' ').unwrap();
        count.parse::<u64>().unwrap()
    };
    assert_eq!(unfollowed(0, 0), 0);
    assert_eq!(unfollowed(3, 0), 3);
    assert_eq!((unfollowed(0, 700), unfollowed(3, 700)), (1, 3));
}
