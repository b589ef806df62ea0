//! docs/library.md lists exactly the public items of this crate, and each function's
//! documentation says whether a real-time thread may call it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn source(module: &str) -> (PathBuf, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let path = [format!("{module}.rs"), format!("{module}/mod.rs")]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| path.exists())
        .expect("the module has a file");
    let text = fs::read_to_string(&path).expect("the module is read");
    // Unit tests are at the end of a file.
    let tests = ["\n#[cfg(test)]", "\n#[cfg(all(test"];
    let end = tests.iter().filter_map(|begin| text.find(begin)).min();
    let code = text[..end.unwrap_or(text.len())].to_owned();
    (path, code)
}

/// The public modules.
fn modules() -> Vec<String> {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let lib = lib.expect("lib.rs");
    let named = lib.lines().filter_map(|line| line.strip_prefix("pub mod "));
    named
        .map(|name| name.trim_end_matches(';').to_owned())
        .collect()
}

/// The name of a public item that is declared in this line.
fn item(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("pub ")?.split_whitespace().peekable();
    while words
        .next_if(|word| matches!(*word, "unsafe" | "const" | "extern" | "\"C\""))
        .is_some()
    {
        // `pub const NAME` names a constant, `pub const fn` does not.
        if let Some(name) = words.peek()
            && line.starts_with("pub const")
            && !matches!(*name, "fn" | "unsafe" | "extern")
        {
            return name.split(':').next();
        }
    }
    let known = ["fn", "struct", "enum", "trait", "static", "type", "mod"];
    words.next_if(|word| known.contains(word))?;
    words.next()?.split(['(', '<', ':', ';', '{']).next()
}

/// The public items of a module, without hidden ones.
fn items(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut hidden = false;
    for line in code.lines() {
        if line.starts_with("#[doc(hidden)]") {
            hidden = true;
        } else if let Some(name) = item(line)
            && !std::mem::take(&mut hidden)
        {
            found.insert(name.to_owned());
        }
    }
    let uses = code.match_indices("\npub use ");
    for (at, _) in uses {
        let path = code[at + 1..].split(';').next().unwrap_or_default();
        let names = path.rsplit("::").next().unwrap_or_default();
        let names = path.split_once('{').map_or(names, |(_, names)| names);
        let names = names.trim_end_matches('}').split(',').map(str::trim);
        // The name under which programs know it.
        let names = names.filter_map(|name| name.rsplit(" as ").next());
        found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    found
}

#[test]
fn the_reference_lists_every_public_item() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/library.md");
    let text = fs::read_to_string(docs).expect("docs/library.md");
    let (_, list) = text
        .split_once("### Every item")
        .expect("the list of items");
    let list = list.split("\n## ").next().unwrap_or_default();
    let rows: Vec<Vec<&str>> = list
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('`').skip(1).step_by(2).collect())
        .collect();
    let documented: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    // `sys` contains the system calls for the other modules, and isn't for programs.
    let modules: Vec<String> = modules().into_iter().filter(|name| name != "sys").collect();
    let all: BTreeSet<&str> = modules.iter().map(String::as_str).collect();
    assert_eq!(documented, all, "modules in docs/library.md and in lib.rs");
    for module in &modules {
        let row = rows
            .iter()
            .find(|row| row[0] == module)
            .expect("a row for the module");
        let listed: BTreeSet<String> = row[1..].iter().map(|&name| name.to_owned()).collect();
        let listed_row = items(&source(module).1)
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ");
        assert_eq!(
            listed,
            items(&source(module).1),
            "docs/library.md needs: | `{module}` | {listed_row} |"
        );
    }
}

/// The documentation directly above a line.
fn comment(lines: &[&str], at: usize) -> String {
    let mut above: Vec<&str> = lines[..at]
        .iter()
        .rev()
        .map(|line| line.trim_start())
        .take_while(|line| line.starts_with("///") || line.starts_with("#["))
        .collect();
    above.reverse();
    above.join(" ")
}

/// The public files of a module: its own, and those that some items moved to.
fn files(module: &str) -> Vec<(PathBuf, String)> {
    let mut files = vec![source(module)];
    match module {
        "channel" => {
            let parts = [
                "age", "counts", "frame", "inbox", "options", "receive", "send",
            ];
            files.extend(parts.map(|part| source(&format!("channel/{part}"))));
        }
        "records" => files.push(source("records/turns")),
        "sync" => files.push(source("sync/condvar")),
        "thread" => files.push(source("thread/launch")),
        _ => {}
    }
    files
}

#[test]
fn each_function_says_whether_it_is_real_time_safe() {
    let mut silent = Vec::new();
    let mut seen = 0;
    for (path, code) in modules().iter().flat_map(|module| files(module)) {
        if path.ends_with("sys/mod.rs") {
            continue;
        }
        let lines: Vec<&str> = code.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            // Methods are indented once.
            let declared = line.strip_prefix("    ").unwrap_or(line);
            if !line.contains("fn ") || item(declared).is_none() {
                continue;
            }
            seen += 1;
            let said = comment(&lines, at).to_lowercase();
            let words = [
                "real-time",
                "setting up",
                "system call",
                "arithmetic",
                "wait-free",
            ];
            if !words.iter().any(|word| said.contains(word)) {
                silent.push(format!("{}:{}: {line}", path.display(), at + 1));
            }
        }
    }
    assert_eq!(silent, [""; 0]);
    assert!(seen > 100, "{seen} functions were seen");
}
