//! Instructions of a program, by thread and function, as valgrind counts them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Instructions of one thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    pub total: u64,
    /// By function, without what it calls.
    pub functions: BTreeMap<String, u64>,
}

impl Thread {
    /// Whether it ever was in a function with these letters in its name.
    pub fn was_in(&self, part: &str) -> bool {
        self.functions.keys().any(|name| name.contains(part))
    }
}

/// Runs a program to its end; its threads in the order in which they were made.
pub fn count(place: &Path, program: &Path, arguments: &[String]) -> Result<Vec<Thread>, String> {
    let mut file = place.as_os_str().to_owned();
    let mut option = std::ffi::OsString::from("--callgrind-out-file=");
    option.push(&file);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--separate-threads=yes"])
        .arg(option)
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|_| "valgrind is not installed (Debian: valgrind)".to_owned())?;
    let mut threads = Vec::new();
    for number in 1.. {
        file.clear();
        file.push(place);
        file.push(format!("-{number:02}"));
        match std::fs::read_to_string(&file) {
            Ok(text) => threads.push(parse(&text)),
            Err(_) if number > 1 => break,
            Err(_) => {
                let words = String::from_utf8_lossy(&output.stderr);
                let last = words.lines().last().unwrap_or_default();
                return Err(format!("{} under valgrind: {last}", program.display()));
            }
        }
    }
    Ok(threads)
}

/// A profile in callgrind's format.
fn parse(text: &str) -> Thread {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut thread = Thread::default();
    let mut function = "";
    let mut called = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            // `(7) name` the first time, `(7)` from then on.
            let (number, rest) = name.split_once(' ').unwrap_or((name, ""));
            if !rest.is_empty() {
                names.insert(number, rest);
            }
            function = names.get(number).copied().unwrap_or(name);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            if let Some((number, rest)) = name.split_once(' ') {
                names.insert(number, rest);
            }
        } else if line.starts_with("calls=") {
            // The next line is what the call cost: it is counted where it was spent.
            called = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse().ok());
            if let (false, Some(cost)) = (called, cost) {
                thread.total += cost;
                match thread.functions.get_mut(function) {
                    Some(sum) => *sum += cost,
                    None => {
                        thread.functions.insert(function.to_owned(), cost);
                    }
                }
            }
            called = false;
        }
    }
    thread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_where_it_is_spent() {
        let text = "\
version: 1
positions: line
events: Ir
fl=(1) a.rs
fn=(1) main
10 5
+2 3
cfn=(2) work
calls=4 20
* 400
fn=(2)
20 100
* 7
-1 1

totals: 116
";
        let thread = parse(text);
        assert_eq!(thread.total, 116);
        assert_eq!(thread.functions["main"], 8);
        assert_eq!(thread.functions["work"], 108);
        assert!(thread.was_in("ork") && !thread.was_in("a.rs"));
    }
}
