//! Writes the tables of docs/results: each page by the command that makes its figures.

mod bounds;
mod costs;
mod tasks;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::bench::{lab, table};
use crate::root;

/// A page, and what makes it.
struct Page {
    name: &'static str,
    title: &'static str,
    words: &'static [&'static str],
    /// What a cell shows.
    shows: Shows,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// The worst wake-up.
    Worst,
    /// That, the ratio to the first column, and the function that took most of the last column's.
    Ratio,
    /// Mean, p99 and the worst, over all seeds.
    Three,
    /// The highest of all seeds, the bound, and the window that makes it.
    Bound,
    /// Of each operation its instructions, and their ratio to the first column.
    Cost,
    /// Of each task the best, p99 and worst response time, its bound, and late jobs.
    Tasks,
}

const PAGES: &[Page] = &[
    Page {
        name: "lab-kernels",
        title: "PREEMPT_RT and the standard kernel: worst wake-up in virtual ns",
        words: &[
            "lab",
            "--load",
            "idle,native,exit,poll,munmap,truncate,mprotect,vmread,kill,proc",
        ],
        shows: Shows::Ratio,
    },
    Page {
        name: "lab-preemption",
        title: "Preemption models: worst wake-up in virtual ns",
        words: &["lab", "run", "rt-vs-standard", "--no-explain"],
        shows: Shows::Worst,
    },
    Page {
        name: "lab-ladder",
        title: "Ladder: worst wake-up in virtual ns",
        words: &[
            "lab",
            "run",
            "ladder",
            "--load",
            "idle,cpu,fork",
            "--no-explain",
        ],
        shows: Shows::Worst,
    },
    Page {
        name: "lab-peers",
        title: "Peers: mean of the means, highest p99, highest maximum, in virtual ns",
        words: &["lab", "run", "peers", "--seeds", "3", "--no-explain"],
        shows: Shows::Three,
    },
    Page {
        name: "lab-bound",
        title: "How late a wake-up was, and how late it could have been, in virtual ns",
        words: &["lab", "bound", "--seeds", "6", "--load", "idle,native,exit"],
        shows: Shows::Bound,
    },
    Page {
        name: "lab-arm64",
        title: "PREEMPT_RT and the standard kernel for arm64: worst wake-up in virtual ns",
        words: &["lab", "--arch", "arm64", "--load", "idle,native,exit"],
        shows: Shows::Ratio,
    },
    Page {
        name: "lab-cost",
        title: "Instructions per operation, and their ratio to the first column",
        words: &["lab", "cost"],
        shows: Shows::Cost,
    },
    Page {
        name: "lab-exec",
        title: "Task set of rt-exec: response times in virtual ns",
        words: &["lab", "run", "exec"],
        shows: Shows::Tasks,
    },
];

/// Pages that scripts and tests write: `scripts/kubernetes/page`, `crates/stats/tests/stats/matrix.rs`.
#[cfg(test)]
const BY_OTHERS: &[&str] = &["kubernetes", "bounds"];

/// `cargo xtask results NAME ...`: the pages of these names.
pub fn write(names: &[String]) -> ExitCode {
    let known = |name: &str| PAGES.iter().find(|page| page.name == name);
    let all: Vec<&str> = PAGES.iter().map(|page| page.name).collect();
    if names.is_empty() || names.iter().any(|name| known(name).is_none()) {
        eprintln!("cargo xtask results NAME ...: expected {}", all.join(", "));
        return ExitCode::from(64);
    }
    let pages: Vec<&Page> = names.iter().filter_map(|name| known(name)).collect();
    // Before any page is made, which takes hours: the tree may be another one when they are ready.
    let builds: Result<Vec<Build>, String> = pages.iter().map(|page| build(page)).collect();
    let made = builds.and_then(|builds| {
        pages.iter().zip(&builds).try_for_each(|(page, build)| {
            let made = made(page, build);
            made.map_err(|error| format!("{}: {error}", page.name))
        })
    });
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What the digits are of.
struct Build {
    /// The program in the guests.
    file: PathBuf,
    sha256: String,
    /// Its commit and compiler as well, for a page.
    text: String,
}

fn made(page: &Page, build: &Build) -> Result<(), String> {
    let program = root().join("target/punctual");
    if table::sha256(&build.file)? != build.sha256 {
        return Err(format!(
            "{} is another one than when this began: its page would name the wrong commit",
            build.file.display()
        ));
    }
    let place = std::env::temp_dir().join(format!("punctual-results-{}", std::process::id()));
    let mut command = Command::new(&program);
    command.args(page.words).args(["-q", "-o"]).arg(&place);
    let (lab, whole) = lab::record(&mut command, &place)
        .map_err(|error| format!("{}: {error}: run make first", program.display()))?;
    let _ = std::fs::remove_dir_all(&place);
    whole.map_err(|why| format!("not all guests have a result: {why}"))?;
    let cells = lab::cells(&lab)?;
    let text = text(page, cells, &origin(&build.text, cells));
    let file = root()
        .join("docs/results")
        .join(format!("{}.md", page.name));
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn build(page: &Page) -> Result<Build, String> {
    let is_architecture = |pair: &&[&str]| pair[0] == "--arch";
    let program = match page.words.windows(2).find(is_architecture) {
        Some(pair) => format!("punctual-{}", pair[1]),
        None => "punctual".to_owned(),
    };
    let said = |command: &str, words: &[&str]| -> Result<String, String> {
        let output = Command::new(command)
            .current_dir(root())
            .args(words)
            .output();
        let output = output.map_err(|error| format!("{command}: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = said("git", &["describe", "--always"])?;
    // What the program is made of: a page that was written before is none of it.
    let sources = ["crates", "Cargo.toml", "Cargo.lock"];
    let changed = said(
        "git",
        &[&["status", "--porcelain", "--"], &sources[..]].concat(),
    )?;
    let dirty = if changed.is_empty() { "" } else { "-dirty" };
    let file = root().join("target").join(&program);
    let sha256 = table::sha256(&file)?;
    let compiler = said("rustc", &["--version"])?;
    let text =
        format!("Commit `{commit}{dirty}`, {compiler}, SHA-256 of `target/{program}`\n`{sha256}`");
    Ok(Build { file, sha256, text })
}

/// What else the digits depend on.
fn origin(build: &str, cells: &[Value]) -> String {
    let mut kernels: Vec<&str> = Vec::new();
    let mut emulators: Vec<&str> = Vec::new();
    for cell in cells {
        let laboratory = &cell["laboratory"];
        let kernel = word(&laboratory["package"]);
        for (found, list) in [
            (kernel, &mut kernels),
            (word(&laboratory["fingerprint"]["emulator"]), &mut emulators),
        ] {
            if !found.is_empty() && !list.contains(&found) {
                list.push(found);
            }
        }
    }
    format!(
        "{build};\n{}; QEMU {}.\n",
        kernels.join(", "),
        emulators.join(", ")
    )
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The title of a page, and where it comes from.
fn head(page: &Page, origin: &str) -> String {
    format!(
        "# {}\n\nWritten by `cargo xtask results {}`, which runs\n`punctual {}`.\n\n{origin}\n",
        page.title,
        page.name,
        page.words.join(" ")
    )
}

/// The page.
fn text(page: &Page, cells: &[Value], origin: &str) -> String {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<&str> = Vec::new();
    let mut of: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for cell in cells {
        let (column, row) = (word(&cell["kernel"]), word(&cell["load"]));
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !rows.contains(&row) {
            rows.push(row);
        }
        of.entry((row, column)).or_default().push(cell);
    }
    match page.shows {
        Shows::Tasks => return head(page, origin) + &tasks::tables(&columns, &rows, &of),
        Shows::Bound => return head(page, origin) + &bounds::table(&columns, &rows, &of),
        Shows::Cost => return head(page, origin) + &costs::table(cells),
        Shows::Worst | Shows::Ratio | Shows::Three => {}
    }
    let mut text = head(page, origin) + "| load |";
    for column in &columns {
        let _ = write!(text, " {column} |");
    }
    let more = if page.shows == Shows::Ratio { 2 } else { 0 };
    text += if more > 0 {
        " ratio | |\n|---|"
    } else {
        "\n|---|"
    };
    text += &"---|".repeat(columns.len() + more);
    text += "\n";
    for row in rows {
        let _ = write!(text, "| {row} |");
        let here = |column| of.get(&(row, column)).map_or([].as_slice(), Vec::as_slice);
        for column in &columns {
            let _ = write!(text, " {} |", shown(page.shows, here(*column)));
        }
        if let (Shows::Ratio, [first, .., last]) = (page.shows, columns.as_slice()) {
            let _ = write!(
                text,
                " {} | {} |",
                ratio(here(*first), here(*last)),
                function(here(*last))
            );
        }
        text += "\n";
    }
    text
}

fn figure(cell: &Value, key: &str) -> Option<f64> {
    cell["figures"][key].as_f64()
}

fn highest(cells: &[&Value], key: &str) -> Option<f64> {
    cells
        .iter()
        .map(|cell| figure(cell, key))
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .reduce(f64::max)
}

fn shown(shows: Shows, cells: &[&Value]) -> String {
    let mean = || {
        let all = cells
            .iter()
            .map(|cell| figure(cell, "mean_ns"))
            .collect::<Option<Vec<_>>>()?;
        Some(all.iter().sum::<f64>() / all.len() as f64)
    };
    let max = highest(cells, "max_ns");
    let figures = match shows {
        Shows::Three => vec![mean(), highest(cells, "p99_ns"), max],
        Shows::Worst | Shows::Ratio | Shows::Tasks | Shows::Bound | Shows::Cost => vec![max],
    };
    let figures: Option<Vec<String>> = figures.into_iter().map(|ns| ns.map(grouped)).collect();
    figures.map_or("no figure".to_owned(), |figures| figures.join(", "))
}

fn ratio(first: &[&Value], last: &[&Value]) -> String {
    match (highest(first, "max_ns"), highest(last, "max_ns")) {
        (Some(first), Some(last)) if last / first >= 100.0 => format!("{:.0}", last / first),
        (Some(first), Some(last)) if last / first >= 10.0 => format!("{:.1}", last / first),
        (Some(first), Some(last)) => format!("{:.2}", last / first),
        _ => String::new(),
    }
}

/// The function in which most instructions of the worst wake-up ran, if that is a fifth and more.
fn function(cells: &[&Value]) -> String {
    let bill = cells.first().map(|cell| &cell["bills"][0]);
    let Some(bill) = bill.filter(|bill| bill.is_object()) else {
        return String::new();
    };
    let row = &bill["rows"][0];
    let share =
        row["instructions"].as_f64().unwrap_or(0.0) / bill["total_ns"].as_f64().unwrap_or(1.0);
    if share < 0.2 {
        return String::new();
    }
    format!("`{}` {:.0} %", word(&row["function"]), share * 100.0)
}

/// `1,629,123`
fn grouped(ns: f64) -> String {
    let digits = format!("{ns:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cell(kernel: &str, seed: u64, max_ns: u64) -> Value {
        json!({
            "kernel": kernel, "load": "exit", "seed": seed,
            "figures": {"mean_ns": 3_000.0, "p99_ns": 4_000, "max_ns": max_ns},
            "bills": [{"total_ns": 100, "rows": [{"function": "f", "instructions": 60}]}],
        })
    }

    #[test]
    fn a_page_has_a_column_for_each_kernel_and_the_highest_of_its_seeds() {
        let lab = json!({"cells": [
            cell("rt", 1, 8_170), cell("rt", 2, 8_000), cell("standard", 1, 4_046_422),
            {"kernel": "standard", "load": "poll", "figures": null},
        ]});
        let lines = |shows| {
            let page = Page {
                name: "n",
                title: "T",
                words: &["lab"],
                shows,
            };
            let text = text(&page, lab::cells(&lab).unwrap(), "Origin.\n");
            text.lines()
                .skip_while(|line| !line.starts_with('|'))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            lines(Shows::Ratio),
            [
                "| load | rt | standard | ratio | |",
                "|---|---|---|---|---|",
                "| exit | 8,170 | 4,046,422 | 495 | `f` 60 % |",
                "| poll | no figure | no figure |  |  |",
            ]
        );
        assert_eq!(lines(Shows::Worst)[2], "| exit | 8,170 | 4,046,422 |");
        assert_eq!(
            lines(Shows::Three)[2],
            "| exit | 3,000, 4,000, 8,170 | 3,000, 4,000, 4,046,422 |"
        );
    }

    #[test]
    fn each_page_of_results_is_one_that_a_command_writes() {
        let pages: Vec<String> = std::fs::read_dir(root().join("docs/results"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".md"))
            .collect();
        let names = PAGES.iter().map(|page| page.name);
        let known: Vec<String> = names
            .chain(BY_OTHERS.iter().copied())
            .map(|name| format!("{name}.md"))
            .collect();
        // That one is there after the first whole `make test-all`.
        let is_known = |page: &String| known.contains(page) || page == "test-all.md";
        assert!(pages.iter().all(is_known), "{pages:?}");
        assert!(known.iter().all(|page| pages.contains(page)), "{pages:?}");
    }
}
