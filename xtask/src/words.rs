//! Words that stand for one developer's machine, and hosts that nobody was meant to depend
//! on.

use crate::files::Tracked;

/// Beginnings of paths that exist on one machine only.
const PLACES: &[&str] = &["/work/", "/tmp/wt", "/root/", "/home/", "/Users/", "/mnt/"];

/// Hosts that the project may name, in whatever file.
const HOSTS: &[&str] = &[
    "docs.kernel.org",
    "duckdb.org",
    "github.com",
    "hdrhistogram.org",
    "howardhinnant.github.io",
    "json-schema.org",
    "keepachangelog.com",
    "man7.org",
    "no-color.org",
    "opensource.org",
    "parquet.apache.org",
    "semver.org",
    "spdx.org",
    "wiki.linuxfoundation.org",
    "www.apache.org",
    "www.debian.org",
    "www.kernel.org",
    "www.rust-lang.org",
    "www.w3.org",
];

/// The one place that crates come from.
const INDEX: &str = "\"registry+https://github.com/rust-lang/crates.io-index\"";

/// What no file may hold, a line each.
pub fn faults(files: &[Tracked]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files {
        // This one lists them.
        if file.path == "xtask/src/words.rs" {
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            let place = format!("{}:{}", file.path, at + 1);
            if file.path.ends_with("Cargo.lock") {
                if line.starts_with("source = ") && line != format!("source = {INDEX}") {
                    faults.push(format!("{place}: a crate from elsewhere: {line}"));
                }
                continue;
            }
            faults.extend(of_line(&place, line));
        }
    }
    faults
}

fn of_line(place: &str, line: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for words in PLACES {
        for (at, _) in line.match_indices(words) {
            // Part of a longer path, as in /var/home/, or a made-up one in a test.
            let whole =
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "./_-$}".contains(c));
            let made_up =
                line[at..].starts_with("/home/o'") || line[at..].starts_with("/home/USER");
            if whole && !made_up {
                faults.push(format!("{place}: a path of one machine: {words}"));
            }
        }
    }
    for scheme in ["https://", "http://"] {
        for (at, _) in line.match_indices(scheme) {
            let rest = &line[at + scheme.len()..];
            let host = rest
                .split(|c: char| !c.is_alphanumeric() && !".-".contains(c))
                .next()
                .unwrap_or("")
                .trim_end_matches('.');
            // Examples: localhost, and names that never exist.
            let example = host.is_empty()
                || !host.contains('.')
                || host.ends_with(".example")
                || host.starts_with("127.")
                || ["example.com", "example.org"]
                    .iter()
                    .any(|e| host.ends_with(e));
            if !example && !HOSTS.contains(&host) {
                faults.push(format!(
                    "{place}: a host that xtask/src/words.rs doesn't know: {host}"
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<String> {
        faults(&[Tracked::made(path, text)])
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert_eq!(
            faults_of("a.md", "see\n/home/me/x and /work/y"),
            [
                "a.md:2: a path of one machine: /work/",
                "a.md:2: a path of one machine: /home/",
            ]
        );
        for fine in ["proc/root/etc", "$DESTDIR/work/", "a/home/b", "framework/x"] {
            assert_eq!(faults_of("a.md", fine), [""; 0], "{fine}");
        }
    }

    #[test]
    fn unknown_hosts_are_found() {
        assert_eq!(
            faults_of(
                "a.rs",
                "// https://mirror.corp.test/x, https://github.com/y"
            ),
            ["a.rs:1: a host that xtask/src/words.rs doesn't know: mirror.corp.test"]
        );
        assert_eq!(
            faults_of("a.rs", "\"http://\" http://localhost:80"),
            [""; 0]
        );
    }

    #[test]
    fn crates_come_from_one_place() {
        let lock = format!("source = {INDEX}\nsource = \"git+https://github.com/a/b\"\n");
        assert_eq!(
            faults_of("fuzz/Cargo.lock", &lock),
            ["fuzz/Cargo.lock:2: a crate from elsewhere: source = \"git+https://github.com/a/b\""]
        );
    }
}
