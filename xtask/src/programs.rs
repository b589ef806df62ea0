//! What cargo built: programs, and where they are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A program of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgram {
    pub package: String,
    /// Its kind, as cargo says it: `lib`, `bin`, `test`, ...
    kind: String,
    pub name: String,
    /// The folder of its package, which the tests run in.
    pub folder: PathBuf,
    source: String,
    pub file: PathBuf,
}

impl TestProgram {
    /// That of one of cargo's messages.
    fn of(message: &Value) -> Option<Self> {
        let word = |value: &Value| value.as_str().map(str::to_owned);
        if message["profile"]["test"] != true {
            return None;
        }
        let manifest = PathBuf::from(word(&message["manifest_path"])?);
        let folder = manifest.parent()?.to_owned();
        let target = &message["target"];
        let source = word(&target["src_path"])?;
        // `path+file:///folder#name@1.0.0`, or without a name where the folder has it.
        let id = word(&message["package_id"])?;
        let (place, end) = id.rsplit_once('#')?;
        let package = match end.split_once('@') {
            Some((name, _)) => name,
            None => place.rsplit('/').next()?,
        };
        Some(Self {
            package: package.to_owned(),
            kind: word(&target["kind"][0])?,
            name: word(&target["name"])?,
            source: Path::new(&source)
                .strip_prefix(&folder)
                .map_or(source.clone(), |path| path.display().to_string()),
            folder,
            file: PathBuf::from(word(&message["executable"])?),
        })
    }

    /// The line that cargo prints before it runs the program.
    pub fn title(&self) -> String {
        let unit = if self.kind == "test" {
            ""
        } else {
            "unittests "
        };
        format!(
            "     Running {unit}{} ({})",
            self.source,
            self.file.display()
        )
    }

    /// What cargo prints where its tests failed.
    pub fn to_rerun(&self) -> String {
        let which = match self.kind.as_str() {
            "test" => format!("--test {}", self.name),
            "bin" => format!("--bin {}", self.name),
            _ => "--lib".to_owned(),
        };
        format!(
            "error: test failed, to rerun pass `-p {} {which}`",
            self.package
        )
    }
}

/// What cargo says of what it builds.
///
/// # Errors
/// It can't be built, which cargo has explained.
pub fn messages(mut command: Command) -> Result<String, String> {
    let output = command
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", output.status)),
    }
}

fn values(messages: &str) -> impl Iterator<Item = Value> {
    let lines = messages.lines();
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// Where cargo's messages say that a program is.
pub fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    values(messages)
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// The programs of tests in cargo's messages: a package's are together, its unit tests first.
pub fn of_tests(messages: &str) -> Vec<TestProgram> {
    let mut programs: Vec<_> = values(messages)
        .filter_map(|message| TestProgram::of(&message))
        .collect();
    programs.sort_by_cached_key(|program| {
        (
            program.package.clone(),
            program.kind == "test",
            program.name.clone(),
        )
    });
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"punctual"},"executable":null}"#,
            "\nnot json\n",
            r#"{"target":{"name":"bench_runs"},"executable":"/t/bench_runs"}"#,
            "\n",
            r#"{"target":{"name":"punctual"},"executable":"/t/punctual"}"#,
        );
        assert_eq!(
            executable(messages, "punctual"),
            Some(PathBuf::from("/t/punctual"))
        );
        assert_eq!(executable(messages, "other"), None);
        assert_eq!(of_tests(messages), []);
    }

    #[test]
    fn test_programs_are_those_that_cargo_would_run() {
        let message = |id: &str, kind: &str, name: &str, source: &str, test: bool| {
            format!(
                r#"{{"package_id":"{id}","manifest_path":"/w/crates/punctual/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}","src_path":"{source}"}},"profile":{{"test":{test}}},"executable":"/t/{name}-01"}}"#
            )
        };
        let id = "path+file:///w/crates/punctual#0.1.0";
        let messages = [
            message(
                id,
                "test",
                "run",
                "/w/crates/punctual/tests/run/main.rs",
                true,
            ),
            message(
                id,
                "bin",
                "punctual",
                "/w/crates/punctual/src/main.rs",
                false,
            ),
            message(
                id,
                "bin",
                "punctual",
                "/w/crates/punctual/src/main.rs",
                true,
            ),
            message(
                "path+file:///w/crates/rt#punctual-rt@0.1.0",
                "lib",
                "punctual_rt",
                "/w/crates/punctual/src/lib.rs",
                true,
            ),
        ]
        .join("\n");
        let found = of_tests(&messages);
        let titles: Vec<_> = found.iter().map(TestProgram::title).collect();
        assert_eq!(
            titles,
            [
                "     Running unittests src/main.rs (/t/punctual-01)",
                "     Running tests/run/main.rs (/t/run-01)",
                "     Running unittests src/lib.rs (/t/punctual_rt-01)",
            ]
        );
        let rerun: Vec<_> = found.iter().map(TestProgram::to_rerun).collect();
        assert!(
            rerun[0].ends_with("`-p punctual --bin punctual`"),
            "{rerun:?}"
        );
        assert!(rerun[1].ends_with("`-p punctual --test run`"), "{rerun:?}");
        assert!(rerun[2].ends_with("`-p punctual-rt --lib`"), "{rerun:?}");
        assert_eq!(found[0].folder, Path::new("/w/crates/punctual"));
    }
}
