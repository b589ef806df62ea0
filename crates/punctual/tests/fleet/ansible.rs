//! The playbook of integrations/ansible on four hosts.

use std::fs;
use std::process::Command;

use super::common::{flat, need, program, read_json};
use super::farm::{Farm, HOSTS};

/// Flags of a short run for the variable of a host, as JSON.
fn flags(words: &str) -> String {
    let words = format!("-l 20 -i 10000 --load=none --no-explain --best-effort {words}");
    serde_json::to_string(&words.split(' ').collect::<Vec<_>>()).expect("JSON")
}

#[test]
fn the_playbook_fails_on_fail_and_reports_other_verdicts_apart() {
    let farm = need!(Farm::start());
    // A test's binary is large: its symbols need not travel.
    let binary = farm.at("binary");
    let stripped = Command::new("strip")
        .arg(program())
        .arg("-o")
        .arg(&binary)
        .status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(program(), &binary).expect("a copy");
    }
    let folder = farm.at("host_vars");
    fs::create_dir(&folder).expect("a folder");
    let inconclusive = flags("--deadline 10s --miss 1e-9");
    let vars = |host: &str, flags: &str| {
        fs::write(
            folder.join(format!("{host}.yml")),
            format!("punctual_flags: {flags}\n"),
        )
        .expect("a file");
    };
    vars("farm1", &inconclusive);
    vars("farm2", &inconclusive);
    vars("farm3", &flags("--deadline 1ns"));
    // A load that does nothing.
    vars(
        "farm4",
        "[-D, '3', --deadline, 10s, --load, sleep 60, --no-explain]",
    );
    let binary = format!("punctual_binary={}", binary.display());
    let results = |name: &str| format!("punctual_results={}", farm.at(name).display());

    let ended = farm
        .play(&["-e", &binary, "-e", &results("night")])
        .expect(2);
    let said = flat(&ended.stdout);
    for (host, verdict) in HOSTS
        .iter()
        .zip(["INCONCLUSIVE", "INCONCLUSIVE", "FAIL", "INVALID"])
    {
        assert!(
            said.contains(&format!("{host}: {verdict}: {verdict}")),
            "{}",
            ended.stdout
        );
    }
    assert!(
        said.contains("FAIL: farm3; no verdict: none"),
        "{}",
        ended.stdout
    );
    assert!(said.contains("\"farm1, farm2\""), "{}", ended.stdout);
    for host in &HOSTS[..3] {
        let run = farm.at("night").join(host).join("1");
        assert_eq!(
            read_json(&run.join("run.json"))["system"]["hostname"],
            **host
        );
        assert!(run.join("report.html").is_file());
    }

    // Results are not mixed with those of an earlier campaign.
    let ended = farm
        .play(&["-e", &binary, "-e", &results("night")])
        .expect(2);
    assert!(flat(&ended.stdout).contains("set punctual_results to a new directory"));

    // Without a FAIL it succeeds; a host that does not answer has no verdict.
    let good = [
        "-e",
        &binary,
        "-e",
        &results("two"),
        "--limit",
        "farm1,farm2,localhost",
    ];
    let limited = farm.play(&good);
    assert!(
        flat(&limited.stdout).contains("no verdict: farm3, farm4"),
        "{}",
        limited.stdout
    );
    vars("farm3", &inconclusive);
    vars("farm4", &inconclusive);
    let ended = farm
        .play(&["-e", &binary, "-e", &results("good")])
        .expect(0);
    assert!(
        flat(&ended.stdout).contains("0 of 4 hosts PASS, none fails"),
        "{}",
        ended.stdout
    );
    let strict = "{\"punctual_failures\": [\"FAIL\", \"INCONCLUSIVE\"]}";
    farm.play(&["-e", &binary, "-e", &results("strict"), "-e", strict])
        .expect(2);
}
