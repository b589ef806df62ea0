//! Counts what cargo's tests say, and finds those that said SKIPPED.

use std::collections::BTreeSet;

/// A test that did not try everything that it is there for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// File or crate of the test.
    pub suite: String,
    /// Its name.
    pub test: String,
    /// Its own words.
    pub reason: String,
}

/// A test that failed, of a program that cargo can run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeatable {
    /// As in [`Tally::failures`].
    pub failure: String,
    pub test: String,
    /// Which program it is, in cargo's words: `-p punctual --test lab`.
    pub program: String,
}

/// What was counted so far.
#[derive(Debug, Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    /// Those that were skipped, with their reasons: a test may have several.
    pub skipped: BTreeSet<Skipped>,
    /// What failed: tests, and programs of tests that died.
    pub failures: Vec<String>,
    /// Those among them that are single tests.
    pub repeatable: Vec<Repeatable>,
    /// Failed once, and passed when they ran again by themselves.
    pub flaky: Vec<String>,
    suite: String,
    /// Tests that failed in the program that cargo ran last.
    failed_here: Vec<String>,
    unfinished: bool,
    section: Section,
    current: String,
}

/// The part of a test program's output that a line lies in.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Section {
    #[default]
    Plain,
    /// What the tests that passed have printed.
    Successes,
}

impl Tally {
    /// Takes the next line; true where a person wants to see it.
    pub fn line(&mut self, line: &str) -> bool {
        if let Some(suite) = suite_name(line) {
            self.end_suite();
            suite.clone_into(&mut self.suite);
            self.unfinished = true;
            return true;
        }
        if line == "successes:" {
            self.section = Section::Successes;
            return false;
        }
        if line == "failures:" {
            self.section = Section::Plain;
            return true;
        }
        if let Some(program) = to_rerun(line) {
            let suite = &self.suite;
            let repeatable = self.failed_here.drain(..).map(|test| Repeatable {
                failure: format!("{suite}: {test}"),
                test,
                program: program.to_owned(),
            });
            self.repeatable.extend(repeatable);
            return true;
        }
        let result = line.strip_prefix("test result: ").filter(|counts| {
            // Tests may print what begins like it.
            counts.starts_with("ok. ") || counts.starts_with("FAILED. ")
        });
        if let Some(counts) = result {
            self.section = Section::Plain;
            self.unfinished = false;
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            return true;
        }
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            name.clone_into(&mut self.current);
            return self.section == Section::Plain;
        }
        if self.section == Section::Successes {
            let Some(reason) = line.trim_start().strip_prefix("SKIPPED: ") else {
                return false;
            };
            let test = self.current.clone();
            self.skip(&test, reason);
            return false;
        }
        if let Some(test) = line.strip_prefix("test ") {
            if let Some((name, "FAILED")) = test.rsplit_once(" ... ") {
                self.failures.push(format!("{}: {name}", self.suite));
                self.failed_here.push(name.to_owned());
            } else if let Some((name, rest)) = test.split_once(" ... ignored") {
                let reason = rest.trim_start_matches([',', ' ']);
                // A part of another test, that runs it as a process of its own.
                if reason.starts_with("run by ") || reason.starts_with("the child of ") {
                    return true;
                }
                let reason = if reason.is_empty() { "ignored" } else { reason };
                // It isn't among those that passed.
                self.passed += 1;
                self.skip(name, reason);
            }
        }
        true
    }

    fn skip(&mut self, test: &str, reason: &str) {
        self.skipped.insert(Skipped {
            suite: self.suite.clone(),
            test: test.to_owned(),
            reason: reason.to_owned(),
        });
    }

    /// A program that ends without its result has died.
    fn end_suite(&mut self) {
        if std::mem::take(&mut self.unfinished) {
            self.fail(format!("{}: ended before its tests did", self.suite));
        }
        self.section = Section::Plain;
        self.failed_here.clear();
    }

    /// It passed when it ran again by itself: it counts among those that passed, and is told.
    pub fn passed_again(&mut self, failure: &str) {
        let Some(place) = self.failures.iter().position(|it| it == failure) else {
            return;
        };
        self.flaky.push(self.failures.remove(place));
        self.failed -= 1;
        self.passed += 1;
    }

    /// Something failed that is no single test.
    pub fn fail(&mut self, what: String) {
        self.failed += 1;
        self.failures.push(what);
    }

    /// A whole check could not be made.
    pub fn skip_check(&mut self, check: &str, reason: &str) {
        self.passed += 1;
        "check".clone_into(&mut self.suite);
        self.skip(check, reason);
    }

    /// The end of the output.
    pub fn end(&mut self) {
        self.end_suite();
    }

    /// How many tests failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// How many tests were skipped, at least in part.
    pub fn skips(&self) -> usize {
        let tests: BTreeSet<_> = self.skipped.iter().map(|s| (&s.suite, &s.test)).collect();
        tests.len()
    }

    /// "412 passed, 0 failed, 3 skipped": each test is in one of the three.
    pub fn summary(&self) -> String {
        let skipped = self.skips();
        let mut summary = format!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed.saturating_sub(skipped),
            self.failed
        );
        if !self.flaky.is_empty() {
            summary += &format!(", {} of the passed flaky", self.flaky.len());
        }
        summary
    }
}

/// `-p punctual --test lab` of cargo's line on a program whose tests failed.
fn to_rerun(line: &str) -> Option<&str> {
    let hint = line.strip_prefix("error: test failed, to rerun pass `")?;
    hint.strip_suffix('`')
}

/// The file or crate in cargo's line on the program that it runs next.
fn suite_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("Running ") {
        let (name, program) = rest.rsplit_once(" (")?;
        // `unittests src/lib.rs` is told by the program's name.
        return Some(if name.starts_with("unittests") {
            program_name(program)
        } else {
            name
        });
    }
    line.strip_prefix("Doc-tests ")
}

/// `punctual` of `target/debug/deps/punctual-0123456789abcdef)`.
fn program_name(program: &str) -> &str {
    let file = program.trim_end_matches(')').rsplit('/').next();
    let file = file.unwrap_or(program);
    file.rsplit_once('-').map_or(file, |(name, _)| name)
}

/// `5` of `ok. 5 passed; 0 failed` for `passed`.
fn count(counts: &str, what: &str) -> usize {
    counts
        .split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(what))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
   Compiling punctual v0.1.0
     Running unittests src/lib.rs (target/debug/deps/punctual_stats-0123456789abcdef)

running 3 tests
test one::fits ... ok
test two ... ok
test slow ... ignored, takes an hour
test part ... ignored, run by another test, in a process of its own

successes:

---- one::fits stdout ----
a word of its own
test result: of its own
---- two stdout ----
SKIPPED: not root
SKIPPED: no cpuset either

successes:
    one::fits
    two

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/dies.rs (target/debug/deps/dies-0123456789abcdef)

running 1 test
error: test failed, to rerun pass `-p punctual --test dies`
   Doc-tests punctual_stats

running 2 tests
test crates/stats/src/lib.rs - quantile (line 12) ... ok
test crates/stats/src/lib.rs - tail (line 40) ... FAILED

failures:

---- crates/stats/src/lib.rs - tail (line 40) stdout ----
SKIPPED: is only quoted in a failure

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
";

    fn tally(output: &str) -> (Tally, Vec<&str>) {
        let mut tally = Tally::default();
        let shown = output.lines().filter(|line| tally.line(line)).collect();
        tally.end();
        (tally, shown)
    }

    #[test]
    fn every_test_is_counted_once() {
        let (tally, _) = tally(OUTPUT);
        assert_eq!(tally.summary(), "2 passed, 2 failed, 2 skipped");
        assert_eq!(
            tally.failures,
            [
                "tests/dies.rs: ended before its tests did",
                "punctual_stats: crates/stats/src/lib.rs - tail (line 40)",
            ]
        );
        let skipped: Vec<_> = tally
            .skipped
            .iter()
            .map(|s| format!("{} {} {}", s.suite, s.test, s.reason))
            .collect();
        assert_eq!(
            skipped,
            [
                "punctual_stats slow takes an hour",
                "punctual_stats two no cpuset either",
                "punctual_stats two not root",
            ]
        );
    }

    #[test]
    fn what_passes_when_it_runs_again_is_flaky() {
        let (mut tally, _) = tally(
            "     Running tests/one.rs (target/debug/deps/one-0123)\n\
             test a ... ok\n\
             test b ... FAILED\n\
             test c ... FAILED\n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n\
             error: test failed, to rerun pass `-p punctual --test one`\n\
             \x20    Running tests/two.rs (target/debug/deps/two-0123)\n\
             test d ... ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n",
        );
        let of = |test: &str| Repeatable {
            failure: format!("tests/one.rs: {test}"),
            test: test.to_owned(),
            program: "-p punctual --test one".to_owned(),
        };
        assert_eq!(tally.repeatable, [of("b"), of("c")]);
        tally.passed_again("tests/one.rs: c");
        tally.passed_again("tests/one.rs: no such test");
        assert_eq!(tally.failures, ["tests/one.rs: b"]);
        assert_eq!(tally.flaky, ["tests/one.rs: c"]);
        let summary = "3 passed, 1 failed, 0 skipped, 1 of the passed flaky";
        assert_eq!(tally.summary(), summary);
    }

    #[test]
    fn what_passing_tests_print_is_kept_back() {
        let (_, shown) = tally(OUTPUT);
        assert!(!shown.contains(&"a word of its own"));
        assert!(shown.contains(&"SKIPPED: is only quoted in a failure"));
        assert!(shown.contains(&"test two ... ok"));
    }

    #[test]
    fn a_program_of_no_tests_is_no_failure() {
        let (tally, _) = tally(
            "     Running unittests src/main.rs (target/debug/deps/punctual-0123)\n\
             running 0 tests\n\
             test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.summary(), "0 passed, 0 failed, 0 skipped");
    }
}
