//! The copyright file of the packages: our licences, and those of all that is linked into the program.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{deps, root, suite};

/// What is linked into the packages' files.
const LINKED: [&str; 3] = ["punctual", "punctual-capi", "punctual-preload"];

/// The platforms of the packages. They have one file, so that those of several can be installed together.
const PLATFORMS: [&str; 3] = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
];

/// What is no crate and is linked too.
const OTHERS: &str = "\
Files: rust/library/*
Copyright: The Rust Project Developers
License: MIT or Apache-2.0
Comment: Rust's standard library, with the crates that it contains.

Files: glibc/*
Copyright: Free Software Foundation, Inc.
 and others
License: LGPL-2.1+
Comment: The program is linked statically to the GNU C library. To link it to another version, run make in
 the source of punctual.

Files: gcc/libgcc/*
Copyright: Free Software Foundation, Inc.
License: GPL-3+ with GCC-Runtime-Library exception
";

/// The texts that several paragraphs refer to, without those of the MIT licence, which is our file.
const TEXTS: &str = "\
License: Apache-2.0
 On Debian systems the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.

License: GPL-2
 On Debian systems the full text of the GNU General Public License, version 2, is in
 /usr/share/common-licenses/GPL-2.

License: LGPL-2.1+
 On Debian systems the full text of the GNU Lesser General Public License, version 2.1, is in
 /usr/share/common-licenses/LGPL-2.1.

License: GPL-3+ with GCC-Runtime-Library exception
 With the GCC Runtime Library Exception, a program that contains this library may have any terms.
 .
 On Debian systems the full text of the GNU General Public License, version 3, is in
 /usr/share/common-licenses/GPL-3.
";

/// A crate that is linked.
#[derive(Debug)]
struct Crate {
    name: String,
    licence: String,
    holders: Vec<String>,
    /// Of its licence files.
    text: String,
}

/// The file.
///
/// # Errors
/// What cargo says, or a crate whose licence is not known.
pub fn file() -> Result<String, String> {
    let mut made = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: punctual\n\
         Upstream-Contact: The punctual developers\n\
         Comment: The paragraphs of crates/NAME-VERSION are those of crates that the program is built from,\n \
         as they are on crates.io. They are no part of the source of punctual.\n\n\
         Files: *\n\
         Copyright: 2026 The punctual developers\n\
         License: MIT or Apache-2.0\n\n\
         Files: crates/trace/src/capture/bpf/*\n\
         Copyright: 2026 The punctual developers\n\
         License: MIT or GPL-2\n\
         Comment: Programs that are loaded into the kernel.\n\n",
    );
    for linked in linked()? {
        paragraph(&mut made, &linked)?;
    }
    made.push_str(OTHERS);
    let mit = fs::read_to_string(root().join("LICENSE-MIT")).map_err(|error| error.to_string())?;
    let terms: Vec<&str> = mit
        .lines()
        .skip_while(|line| !line.starts_with("Permission"))
        .collect();
    write!(made, "\nLicense: MIT\n{}", indented(&terms.join("\n"))).expect("memory");
    write!(made, "\n{TEXTS}").expect("memory");
    Ok(made)
}

fn paragraph(made: &mut String, linked: &Crate) -> Result<(), String> {
    let Crate { name, licence, .. } = linked;
    let taken = taken(licence).ok_or_else(|| format!("{name}: the licence {licence}"))?;
    let holders = linked.holders.join("\n ");
    write!(
        made,
        "Files: crates/{name}/*\nCopyright: {holders}\nLicense: {taken}\n"
    )
    .expect("memory");
    if !is_common(&taken) {
        if linked.text.is_empty() {
            return Err(format!("{name}: {licence} without its text"));
        }
        made.push_str(&indented(&linked.text));
    }
    if licence.replace(" OR ", " or ") != taken {
        writeln!(made, "Comment: Its manifest says: {licence}.").expect("memory");
    }
    made.push('\n');
    Ok(())
}

/// Whether the text of a licence is at the end of the file.
fn is_common(licence: &str) -> bool {
    licence
        .split(" or ")
        .all(|it| ["MIT", "Apache-2.0"].contains(&it))
}

/// What is taken of a crate's choice of licences: ours, if it offers them.
fn taken(licence: &str) -> Option<String> {
    if licence.is_empty() {
        return None;
    }
    let choice: Vec<&str> = licence.split(" OR ").flat_map(|it| it.split('/')).collect();
    let ours: Vec<&str> = choice
        .iter()
        .map(|it| it.trim())
        .filter(|it| is_common(it))
        .collect();
    match ours.is_empty() {
        false => Some(ours.join(" or ")),
        // A choice of others wants a decision.
        true if choice.len() > 1 => None,
        true => Some(licence.replace(" AND ", " and ")),
    }
}

/// As a field's text goes on in further lines.
fn indented(text: &str) -> String {
    let mut made = String::new();
    for line in text.trim().lines() {
        let line = line.trim_end();
        let line = if line.is_empty() { "." } else { line };
        // A form feed ends a page in some licences.
        writeln!(made, " {}", line.replace('\u{c}', "")).expect("memory");
    }
    made
}

/// The crates of others that are linked, by name.
fn linked() -> Result<Vec<Crate>, String> {
    let mut names = BTreeSet::new();
    for package in LINKED {
        // Features are resolved, and macros are left out: nothing of them is in the program.
        let mut tree = suite::cargo(&["tree", "--locked", "--prefix", "none"]);
        tree.args(["--edges", "normal,no-proc-macro", "--format", "{p}"]);
        tree.args(["--package", package]);
        tree.args(PLATFORMS.iter().flat_map(|it| ["--target", it]));
        for line in suite::stdout(&mut tree)?.lines() {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let version = words.next().unwrap_or_default().trim_start_matches('v');
            names.insert(format!("{name}-{version}"));
        }
    }
    let platforms: Vec<&str> = PLATFORMS
        .iter()
        .flat_map(|it| ["--filter-platform", it])
        .collect();
    let metadata = deps::metadata(&platforms)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut linked: Vec<Crate> = packages
        .filter(|package| !package["source"].is_null())
        .map(crate_of)
        .filter(|it| names.contains(&it.name))
        .collect();
    linked.sort_by(|a, b| a.name.cmp(&b.name));
    if linked.is_empty() {
        return Err("cargo tree names no crate".to_owned());
    }
    Ok(linked)
}

fn crate_of(package: &Value) -> Crate {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = word(&package["name"]);
    let manifest = PathBuf::from(word(&package["manifest_path"]));
    let text = licence_files(manifest.parent().unwrap_or(Path::new("")));
    let mut holders = holders(&text);
    if holders.is_empty() {
        let authors = package["authors"].as_array().into_iter().flatten();
        holders = authors.map(word).collect();
    }
    if holders.is_empty() {
        holders.push(format!("The developers of {name}"));
    }
    Crate {
        name: format!("{name}-{}", word(&package["version"])),
        licence: word(&package["license"]),
        holders,
        text,
    }
}

/// The texts of a crate's files of licences, in the order of their names; also of those below.
fn licence_files(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default().to_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"]
            .iter()
            .any(|it| name.starts_with(it))
            && path.is_file()
    };
    let texts = files.iter().filter(|path| is_licence(path));
    let texts: Vec<String> = texts
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    texts.join("\n")
}

/// Who holds the copyright, as the texts say it.
fn holders(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_end_matches('.');
        let Some(holder) = line.strip_prefix("Copyright ") else {
            continue;
        };
        let holder = ["(c) ", "(C) ", "© "]
            .iter()
            .find_map(|sign| holder.strip_prefix(sign))
            .unwrap_or(holder);
        // The place for a name in a licence's instructions, and sentences about notices.
        let is_blank = holder.contains("yyyy") || holder.contains("[year]");
        let is_sentence = holder.starts_with(|c: char| c.is_lowercase());
        let holder = holder.to_owned();
        if !is_blank && !is_sentence && !found.contains(&holder) {
            found.push(holder);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_licences_are_taken_of_a_choice() {
        for (offered, wanted) in [
            ("MIT OR Apache-2.0", Some("MIT or Apache-2.0")),
            ("Apache-2.0/MIT", Some("Apache-2.0 or MIT")),
            ("Unlicense OR MIT", Some("MIT")),
            (
                "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
                Some("Apache-2.0 or MIT"),
            ),
            ("BSD-3-Clause AND ISC", Some("BSD-3-Clause and ISC")),
            ("Zlib OR ISC", None),
            ("", None),
        ] {
            assert_eq!(taken(offered).as_deref(), wanted, "{offered}");
        }
    }

    #[test]
    fn holders_are_named_once_and_no_blanks_are() {
        let text = "MIT\n\nCopyright (c) 2015 A. B.\nCopyright © 2020-2024 C\n\
            Copyright [yyyy] [name of copyright owner]\nCopyright notices are retained\n\
            Copyright (c) 2015 A. B.\n";
        assert_eq!(holders(text), ["2015 A. B", "2020-2024 C"]);
    }

    #[test]
    fn further_lines_of_a_field_are_indented() {
        assert_eq!(indented("a\n\nb \n"), " a\n .\n b\n");
    }

    #[test]
    fn a_licence_that_is_not_ours_has_its_text() {
        let mut made = String::new();
        let mut zlib = Crate {
            name: "foldhash-0.2.0".to_owned(),
            licence: "Zlib".to_owned(),
            holders: vec!["2024 Orson Peters".to_owned()],
            text: String::new(),
        };
        assert!(paragraph(&mut made, &zlib).is_err());
        zlib.text = "This software\n\nis provided".to_owned();
        made.clear();
        paragraph(&mut made, &zlib).expect("a paragraph");
        assert_eq!(
            made,
            "Files: crates/foldhash-0.2.0/*\nCopyright: 2024 Orson Peters\nLicense: Zlib\n \
             This software\n .\n is provided\n\n"
        );
    }

    #[test]
    fn every_linked_crate_has_a_paragraph() {
        let file = file().expect("the file");
        for name in ["clap-", "aya-", "jiff-", "libc-"] {
            assert!(file.contains(&format!("\nFiles: crates/{name}")), "{name}");
        }
        // Of the tests, and a macro.
        for name in ["proptest-", "serde_derive-"] {
            assert!(!file.contains(&format!("crates/{name}")), "{name}");
        }
        for line in file.lines() {
            assert!(line != " " && line == line.trim_end(), "{line:?}");
        }
    }
}
