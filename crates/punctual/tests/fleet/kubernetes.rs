//! The manifests of integrations/kubernetes: decoded with the types of Kubernetes' API, and what types can't say.
//!
//! They are used on a real cluster by `make test-kubernetes`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_stats::verdict::Outcome;
use serde_json::{Value, json};

use super::common::needs::{self, Absent};
use super::common::{Ended, Place, Running, need};

const MANIFESTS: [&str; 4] = [
    "namespace.yaml",
    "qualify.yaml",
    "watch.yaml",
    "collect.yaml",
];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/kubernetes")
}

fn manifests() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/kubernetes");
    MANIFESTS.map(|name| folder.join(name)).to_vec()
}

fn go(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command("go");
    command
        .current_dir(here())
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly")
        .args(arguments);
    command
}

/// The program that decodes manifests, where its modules can be fetched.
///
/// # Errors
/// What is missing for it.
fn decoder(place: &Place) -> Result<PathBuf, Absent> {
    needs::program("go")?;
    let limit = std::time::Duration::from_secs(120);
    // Its modules, and no more: the rest must not be mistaken for a missing network.
    let fetched = Running::start(go(place, &["list", "-deps", "."])).end_within(limit);
    if !fetched.status.success() {
        let last = fetched.stderr.lines().last().unwrap_or_default();
        return Err(Absent::program(format!("Kubernetes' Go modules: {last}")));
    }
    let program = place.path().join("decode");
    let path = program.display().to_string();
    Running::start(go(place, &["build", "-trimpath", "-o", &path, "."]))
        .end_within(limit)
        .expect(0);
    Ok(program)
}

fn decode(place: &Place, decoder: &Path, files: &[PathBuf]) -> Ended {
    let mut command = place.command(decoder);
    command.args(files);
    Running::start(command).end()
}

/// The value of a constant in a source of the program.
fn constant(name: &str) -> i64 {
    let source = include_str!("../../src/cli/failure.rs");
    let start = format!("pub const {name}: u8 = ");
    let line = source.lines().find_map(|line| line.strip_prefix(&start));
    let value = line.and_then(|rest| rest.strip_suffix(';')).expect(name);
    value.parse().expect("a number")
}

#[test]
fn manifests_are_of_kubernetes_api_and_say_what_they_should() {
    let place = Place::new();
    let decoder = need!(decoder(&place));
    let ended = decode(&place, &decoder, &manifests()).expect(0);
    let objects: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(objects.len(), MANIFESTS.len());
    let [namespace, job, watch, collect] = &objects[..] else {
        unreachable!("four objects")
    };
    for object in [job, watch, collect] {
        assert_eq!(
            object["metadata"]["namespace"],
            namespace["metadata"]["name"]
        );
    }
    for_each_pod(&[
        &job["spec"]["template"]["spec"],
        &watch["spec"]["template"]["spec"],
        &collect["spec"],
    ]);
    each_exit_code_has_its_action(job);

    // Two pods with this label are never on a node at the same time.
    let template = &job["spec"]["template"];
    let affinity = &template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(affinity[0]["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(
        affinity[0]["labelSelector"]["matchLabels"],
        template["metadata"]["labels"]
    );
    // The quality of service `Guaranteed`, and whole CPUs.
    let resources = &template["spec"]["containers"][0]["resources"];
    assert_eq!(resources["requests"], resources["limits"]);
    let cpus = resources["limits"]["cpu"].as_str().expect("a quantity");
    assert!(cpus.parse::<u32>().is_ok(), "{cpus}");

    let daemon = &watch["spec"]["template"]["spec"];
    assert_eq!(daemon["hostPID"], true);
    // A limit would throttle the watch.
    assert_eq!(
        daemon["containers"][0]["resources"]["limits"]["cpu"],
        Value::Null
    );
    assert_eq!(
        watch["spec"]["selector"]["matchLabels"],
        watch["spec"]["template"]["metadata"]["labels"]
    );
}

/// As few rights as each needs.
fn for_each_pod(pods: &[&Value; 3]) {
    let wanted = [
        json!(["SYS_NICE", "IPC_LOCK", "BPF", "PERFMON", "SYSLOG"]),
        json!(["BPF", "PERFMON", "SYSLOG"]),
        Value::Null,
    ];
    for (pod, added) in pods.iter().zip(wanted) {
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        // The record names the node.
        assert_eq!(pod["hostNetwork"], true);
        let context = &pod["containers"][0]["securityContext"];
        assert_eq!(context["privileged"], false);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(context["capabilities"]["add"], added);
        assert_eq!(
            pod["volumes"][0]["hostPath"]["path"],
            "/var/lib/punctual/kubernetes"
        );
    }
}

/// A verdict is an answer, wrong usage is that of every pod, and a pod that was killed has no code of ours.
fn each_exit_code_has_its_action(job: &Value) {
    let rules = job["spec"]["podFailurePolicy"]["rules"]
        .as_array()
        .expect("rules");
    // A drained node ends a run early, which then has a verdict: the first rule that matches counts.
    assert_eq!(rules[0]["action"], "Ignore");
    assert_eq!(rules[0]["onPodConditions"][0]["type"], "DisruptionTarget");
    let container = &job["spec"]["template"]["spec"]["containers"][0]["name"];
    let mut actions: BTreeMap<i64, &str> = BTreeMap::new();
    for rule in &rules[1..] {
        let codes = &rule["onExitCodes"];
        assert_eq!(codes["operator"], "In");
        assert_eq!(&codes["containerName"], container);
        for code in codes["values"].as_array().expect("codes") {
            let action = rule["action"].as_str().expect("an action");
            assert_eq!(actions.insert(code.as_i64().expect("a code"), action), None);
        }
    }
    let mut expected = BTreeMap::from([
        (constant("SETUP"), "FailIndex"),
        (constant("USAGE"), "FailJob"),
    ]);
    assert_eq!(Outcome::Pass.exit_code(), 0);
    for outcome in [Outcome::Fail, Outcome::Inconclusive, Outcome::Invalid] {
        expected.insert(i64::from(outcome.exit_code()), "FailIndex");
    }
    assert_eq!(actions, expected);
}

/// The check finds what it is for.
#[test]
fn a_manifest_with_an_unknown_field_or_a_wrong_type_is_refused() {
    let place = Place::new();
    let decoder = need!(decoder(&place));
    let good = std::fs::read_to_string(&manifests()[1]).expect("a file");
    let bad = place.path().join("bad.yaml");
    for (from, to, said) in [
        (
            "backoffLimitPerIndex:",
            "backofLimitPerIndex:",
            "unknown field \"backofLimitPerIndex\"",
        ),
        ("completions: 1", "completions: many", "cannot unmarshal"),
        ("[64]", "[\"64\"]", "cannot unmarshal"),
        ("kind: Job", "kind: Jobs", "unknown kind batch/v1 Jobs"),
    ] {
        assert!(good.contains(from), "{from}");
        std::fs::write(&bad, good.replacen(from, to, 1)).expect("a file");
        let ended = decode(&place, &decoder, std::slice::from_ref(&bad)).expect(1);
        assert!(
            flatly(&ended.stderr).contains(&said.replace('"', "")),
            "{}",
            ended.stderr
        );
    }
}

/// Without quotes, which messages escape.
fn flatly(text: &str) -> String {
    super::common::flat(text).replace(['"', '\\'], "")
}
