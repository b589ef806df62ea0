//! Builds examples and runs them as programs.

use std::path::PathBuf;
use std::process::Command;

/// Builds an example in the tests' own profile, and returns its path. Of the workspace, as the tests are:
/// for a package alone, cargo would build what it depends on again, with other features, for minutes.
/// Where all tests run, it was built with them: cargo would wait for the lints, which run meanwhile.
pub fn build(example: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os("PUNCTUAL_TEST_EXAMPLES") {
        let built = PathBuf::from(folder).join(example);
        assert!(built.exists(), "{example} is none of xtask's EXAMPLES");
        return built;
    }
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace"])
        .args(["--message-format", "json", "--example", example])
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {said}");
    let messages = String::from_utf8_lossy(&output.stdout);
    let built = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == example)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    built.expect("cargo says where it is")
}
