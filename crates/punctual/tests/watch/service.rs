//! The watch as a service: integrations/grafana before a Prometheus that scrapes a node_exporter with
//! the metrics of a watch, and the alerts of integrations/prometheus.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::common::needs::Absent;
use crate::common::{Place, Running, need, until};
use crate::known::watch;
use punctual_rt::sched::{Policy, set_current};

pub fn integrations() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations")
}

/// A program of the path, or one that `make test` has unpacked.
fn tool(name: &str) -> Result<PathBuf, Absent> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/usr/bin"));
    let mut found = places.into_iter().map(|place| place.join(name));
    let found = found.find(|file| file.is_file());
    found.ok_or_else(|| Absent::program(name))
}

/// A server on a free port; killed when dropped.
struct Server {
    port: u16,
    _running: Running,
}

impl Server {
    /// Starts it with its port, and waits until it answers at `ready`.
    fn start(ready: &str, command: impl Fn(u16) -> Command) -> Self {
        // Free a moment ago; if another program takes it, the server ends, and another port is tried.
        for _ in 0..5 {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("an address").port();
            drop(listener);
            let mut running = Running::start(command(port));
            let mut is_over = false;
            until("the server", || {
                is_over = running.is_over();
                is_over || ask(port, ready).is_some()
            });
            if !is_over {
                return Self {
                    port,
                    _running: running,
                };
            }
        }
        panic!("no server on five ports");
    }

    /// The result of a query of Prometheus.
    fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let text = ask(
            self.port,
            &format!("/api/v1/query?query={}", encoded(expression)),
        );
        let text = text.ok_or_else(|| format!("refused: {expression}"))?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let result = answer["data"]["result"].as_array();
        match (answer["status"].as_str(), result) {
            (Some("success"), Some(result)) => Ok(result.clone()),
            _ => Err(text),
        }
    }
}

/// The body of the answer to a request, if it is a success.
fn ask(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let first = head.lines().next()?;
    (first.split(' ').nth(1)? == "200").then(|| body.to_owned())
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The dashboard, and its expressions with the title of their panel and the values of its variables.
fn dashboard() -> (Value, Vec<(String, String)>) {
    let file = integrations().join("grafana/punctual.json");
    let text = fs::read_to_string(file).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut expressions = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            // As Grafana does it, for all nodes.
            let expression = expression
                .replace("$node", ".+")
                .replace("$__rate_interval", "1m");
            assert!(!expression.contains('$'), "{title}: {expression}");
            expressions.push((title.to_owned(), expression));
        }
    }
    (dashboard, expressions)
}

/// Runs `what` while a real-time thread wakes up each ms.
fn beside_a_real_time_thread<T>(what: impl FnOnce() -> T) -> T {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set_current(Policy::Fifo(20)).expect("root may");
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // Also after a panic: else the scope waits for ever.
        let _over = Over(&over);
        what()
    })
}

#[test]
fn every_panel_shows_something_of_a_watch_and_its_alert_fires() {
    needed!();
    let prometheus = need!(tool("prometheus"));
    let exporter = need!(tool("prometheus-node-exporter"));
    let (dashboard, expressions) = dashboard();
    assert!(expressions.len() > 15, "{expressions:?}");
    let place = Place::new();
    let path = |name: &str| place.path().join(name).display().to_string();
    for folder in ["run", "collected", "data"] {
        fs::create_dir(place.path().join(folder)).expect("a directory");
    }
    // As docs/service.md has it: a link to the file of the service, which ends with it.
    symlink("../run/punctual.prom", path("collected/punctual.prom")).expect("a link");
    beside_a_real_time_thread(|| {
        let flags = ["--system", "-q", "--deadline", "1us", "--textfile"];
        let file = path("run/punctual.prom");
        let running = watch(&place, &[&flags[..], &[&file]].concat());
        let exporter = Server::start("/metrics", |port| {
            let mut command = place.command(&exporter);
            command
                .arg(format!(
                    "--collector.textfile.directory={}",
                    path("collected")
                ))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"));
            command
        });
        let rules = integrations().join("prometheus/punctual.rules.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n- job_name: node\n  static_configs: [{{targets: ['127.0.0.1:{}']}}]\n",
            rules.display(),
            exporter.port
        );
        fs::write(path("prometheus.yml"), config).expect("its configuration");
        let prometheus = Server::start("/-/ready", |port| {
            let mut command = place.command(&prometheus);
            command
                .arg(format!("--config.file={}", path("prometheus.yml")))
                .arg(format!("--storage.tsdb.path={}", path("data")))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"));
            command
        });
        let has_result = |expression: &str| {
            let result = prometheus.query(expression);
            result.is_ok_and(|result| !result.is_empty())
        };
        until("the first metrics", || {
            has_result("punctual_latency_seconds_count")
        });
        // The metrics of the end are higher.
        running.signal(libc::SIGINT);
        running.end().expect(2);
        until("the last metrics", || {
            has_result("sum(rate(punctual_late_wakeups_total[1m])) > 0")
                && has_result("rate(node_intr_total[1m]) > 0")
        });
        for (title, expression) in &expressions {
            let result = prometheus.query(expression);
            let result = result.unwrap_or_else(|why| panic!("{title}: {expression}: {why}"));
            let shown = |series: &Value| series["value"][1].as_str().is_some_and(|it| it != "NaN");
            assert!(
                result.iter().any(shown),
                "{title}: {expression}: {result:?}"
            );
        }
        let nodes = "/api/v1/label/instance/values?match[]=punctual_run_info";
        let nodes = ask(prometheus.port, nodes).unwrap_or_default();
        assert!(
            nodes.contains(&format!("127.0.0.1:{}", exporter.port)),
            "{nodes}"
        );
        until("the alert", || {
            let alerts = ask(prometheus.port, "/api/v1/alerts").unwrap_or_default();
            alerts.contains("PunctualLateWakeups") && alerts.contains("firing")
        });
        let rules = ask(prometheus.port, "/api/v1/rules").unwrap_or_default();
        assert!(!rules.contains("\"health\":\"err\""), "{rules}");
        // The service's directory goes with it: nothing old is shown.
        fs::remove_file(&file).expect("the metrics");
        let metrics = ask(exporter.port, "/metrics").unwrap_or_default();
        assert!(!metrics.contains("punctual_latency_seconds"), "{metrics}");
        assert!(
            metrics.contains("node_textfile_scrape_error 1"),
            "{metrics}"
        );
    });
    // Its variables are the ones that the expressions use.
    let variables = dashboard["templating"]["list"]
        .as_array()
        .expect("variables");
    let names: Vec<_> = variables.iter().map(|it| it["name"].as_str()).collect();
    assert_eq!(names, [Some("datasource"), Some("node")]);
}

#[test]
fn the_alerts_fire_when_they_should_and_only_then() {
    let promtool = need!(tool("promtool"));
    let rules = integrations().join("prometheus/punctual.rules.yml");
    let place = Place::new();
    let alerts = |minute: u32, name: &str, of: &str| {
        let expected = match of {
            "" => "[]".to_owned(),
            labels => format!("[{{exp_labels: {labels}}}]"),
        };
        format!("  - {{eval_time: {minute}m, alertname: {name}, exp_alerts: {expected}}}\n")
    };
    let test = format!(
        "rule_files: ['{}']\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n{}  \
         alert_rule_test:\n{}{}{}{}{}",
        rules.display(),
        concat!(
            "  - {series: 'punctual_late_wakeups_total{instance=\"a\",cpu=\"0\"}', values: '5x20 6x20'}\n",
            "  - {series: 'punctual_run_info{instance=\"a\"}', values: '1x120'}\n",
            "  - {series: 'punctual_run_info{instance=\"gone\"}', values: '1x60'}\n",
            "  - {series: 'punctual_lost_samples_total{instance=\"a\",cpu=\"0\"}', values: '0x120'}\n",
        ),
        alerts(15, "PunctualLateWakeups", ""),
        alerts(
            25,
            "PunctualLateWakeups",
            "{severity: warning, instance: a}"
        ),
        alerts(50, "PunctualWatchStopped", ""),
        alerts(
            90,
            "PunctualWatchStopped",
            "{severity: warning, instance: gone}"
        ),
        alerts(25, "PunctualLostSamples", ""),
    );
    // What they say is not compared.
    let text = fs::read_to_string(&rules).expect("the rules");
    let silent: String = text
        .lines()
        .filter(|line| {
            !["annotations:", "summary:", "description:"]
                .iter()
                .any(|it| line.trim().starts_with(it))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(place.path().join("silent.yml"), silent).expect("the rules");
    let test = test.replace(&rules.display().to_string(), "silent.yml");
    fs::write(place.path().join("test.yml"), test).expect("the test");
    for words in [
        &["check", "rules", &rules.display().to_string()][..],
        &["test", "rules", "test.yml"],
    ] {
        let ended = place
            .command(&promtool)
            .args(words)
            .output()
            .expect("promtool");
        assert!(ended.status.success(), "{words:?}: {ended:?}");
    }
}
