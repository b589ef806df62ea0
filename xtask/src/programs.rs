//! What cargo built: programs, and where they are.

use std::path::PathBuf;
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
        // `path+file:///folder#name@1.0.0`, or without a name where the folder has it.
        let id = word(&message["package_id"])?;
        let (place, end) = id.rsplit_once('#')?;
        let package = match end.split_once('@') {
            Some((name, _)) => name,
            None => place.rsplit('/').next()?,
        };
        let kind = word(&target["kind"][0])?;
        // Built as the tests are, and none itself.
        if kind == "example" {
            return None;
        }
        Some(Self {
            package: package.to_owned(),
            kind,
            name: word(&target["name"])?,
            folder,
            file: PathBuf::from(word(&message["executable"])?),
        })
    }

    /// Its name in the workspace: `punctual/run`; of unit tests `punctual-stats/lib` or `punctual/bin`.
    pub fn id(&self) -> String {
        let name = match self.kind.as_str() {
            "test" => &self.name,
            "bin" => "bin",
            _ => "lib",
        };
        format!("{}/{name}", self.package)
    }

    /// The line that says which program runs now, as cargo prints it.
    pub fn title(&self) -> String {
        format!("     Running {} ({})", self.id(), self.file.display())
    }

    /// A command that runs it, where cargo would.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null());
        command
    }

    /// The names of its tests.
    ///
    /// # Errors
    /// It can't be run.
    pub fn tests(&self) -> Result<Vec<String>, String> {
        let mut command = self.command();
        let listed = crate::suite::stdout(command.args(["--list", "--format", "terse"]))
            .map_err(|error| format!("{}: {error}", self.file.display()))?;
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
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

/// The ids of all programs of tests, by cargo's metadata.
pub fn known(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| {
        let targets = package["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (package, target))
    });
    targets
        .filter(|(_, target)| target["test"] == true)
        .filter_map(|(package, target)| {
            let name = match target["kind"][0].as_str()? {
                "test" => target["name"].as_str()?,
                "bin" => "bin",
                "lib" | "cdylib" | "staticlib" | "rlib" => "lib",
                _ => return None,
            };
            Some(format!("{}/{name}", package["name"].as_str()?))
        })
        .collect()
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
        let message = |id: &str, kind: &str, name: &str, test: bool| {
            format!(
                r#"{{"package_id":"{id}","manifest_path":"/w/crates/punctual/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/t/{name}-01"}}"#
            )
        };
        let id = "path+file:///w/crates/punctual#0.1.0";
        let library = "path+file:///w/crates/punctual#punctual-rt@0.1.0";
        let messages = [
            message(id, "test", "run", true),
            message(id, "bin", "punctual", false),
            message(id, "bin", "punctual", true),
            message(library, "lib", "punctual_rt", true),
            message(id, "example", "truth", true),
        ]
        .join("\n");
        let found = of_tests(&messages);
        let names: Vec<_> = found.iter().map(TestProgram::id).collect();
        assert_eq!(names, ["punctual/bin", "punctual/run", "punctual-rt/lib"]);
        assert_eq!(
            found[0].title(),
            "     Running punctual/bin (/t/punctual-01)"
        );
        assert_eq!(found[0].folder, std::path::Path::new("/w/crates/punctual"));
    }
}
