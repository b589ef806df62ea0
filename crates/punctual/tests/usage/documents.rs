//! README.md and docs/ agree with the program: every flag is described, no other is
//! named, examples parse, links have a target.

use punctual_record::{Document, Run};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory, Parser};
use punctual_load::registry;
use punctual_report::formats::Format;
use punctual_stats::histogram::MIN_SAMPLES_BEYOND;
use punctual_stats::tail::{MAX_EXTRAPOLATION, MAX_SHAPE, MIN_BURSTS};
use punctual_stats::verdict::Outcome;
use punctual_tool::cli::Cli;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The pages at the root and in docs/, by path from the root.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = ["CHANGELOG", "CONTRIBUTING", "README", "SECURITY"]
        .map(|name| format!("{name}.md"))
        .into();
    for folder in ["docs", "docs/results"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_str().expect("a name in UTF-8");
            if name.ends_with(".md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages.sort();
    assert!(pages.len() > 15, "{pages:?}");
    pages
}

/// The verbs in the help, with all of their flags.
fn verbs() -> Vec<Command> {
    let mut cli = Cli::command();
    cli.build();
    let listed = |verb: &&Command| !verb.is_hide_set() && verb.get_name() != "help";
    let verbs: Vec<Command> = cli.get_subcommands().filter(listed).cloned().collect();
    assert!(verbs.len() > 10, "{verbs:?}");
    verbs
}

/// `-D` and `--duration` of a flag.
fn names(flag: &Arg) -> Vec<String> {
    let short = flag.get_short().map(|letter| format!("-{letter}"));
    let long = flag.get_long().map(|word| format!("--{word}"));
    short.into_iter().chain(long).collect()
}

/// Including those of nested verbs: `lab bisect`.
fn flags(verb: &Command) -> BTreeSet<String> {
    let own = verb.get_subcommands().flat_map(Command::get_arguments);
    let all = verb.get_arguments().chain(own);
    all.flat_map(|flag| {
        let aliases = flag.get_visible_aliases().unwrap_or_default();
        let aliases = aliases.into_iter().map(|word| format!("--{word}"));
        names(flag).into_iter().chain(aliases)
    })
    .collect()
}

/// A page in parts: the text of its code spans, and its fenced blocks with their language.
#[derive(Default)]
struct Page {
    spans: Vec<String>,
    blocks: Vec<(String, Vec<String>)>,
    headings: Vec<String>,
    prose: String,
}

fn parse(text: &str) -> Page {
    let mut page = Page::default();
    let mut open = false;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            open = !open;
            if open {
                page.blocks.push((language.to_owned(), Vec::new()));
            }
        } else if let (true, Some((_, lines))) = (open, page.blocks.last_mut()) {
            lines.push(line.to_owned());
        } else {
            if line.starts_with('#') {
                page.headings
                    .push(line.trim_start_matches('#').trim().to_owned());
            }
            page.prose.push_str(line);
            page.prose.push('\n');
        }
    }
    assert!(!open, "a block is not closed");
    // A span may extend over the end of a line.
    let spans = page.prose.split('`').skip(1).step_by(2);
    page.spans = spans.map(|span| span.replace('\n', " ")).collect();
    page
}

/// The rows of the tables of flags: the names in the first cell, and the whole row.
fn described(text: &str) -> Vec<(Vec<String>, String)> {
    let rows = text.lines().filter(|line| line.starts_with("| `-"));
    rows.map(|row| {
        let cell = row.split('|').nth(1).unwrap_or_default();
        let names = cell.split('`').skip(1).step_by(2).map(str::to_owned);
        (names.collect(), row.to_owned())
    })
    .collect()
}

#[test]
fn every_verb_has_a_page_that_describes_every_flag() {
    for verb in verbs() {
        let path = format!("docs/{}.md", verb.get_name());
        let text = read(&path);
        let rows = described(&text);
        for flag in verb.get_arguments().filter(|flag| !names(flag).is_empty()) {
            let names = names(flag);
            let row = rows.iter().find(|(row, _)| *row == names);
            let help = names == ["-h", "--help"] && text.contains("`-h`, `--help`");
            assert!(
                row.is_some() || help,
                "{path} has no row for {}",
                names.join(", ")
            );
            let Some((_, row)) = row else { continue };
            for value in flag.get_default_values() {
                let value = value.to_str().expect("text");
                // A switch is off by default.
                if value != "false" {
                    assert!(row.contains(value), "{path}: default {value} in {row}");
                }
            }
            for value in flag.get_possible_values() {
                let name = value.get_name();
                if !["true", "false"].contains(&name) {
                    // Loads have a page of their own, formats a table below.
                    let elsewhere = names == ["--load"]
                        && row.contains("load.md")
                        && read("docs/load.md").contains(&format!("`{name}"))
                        || row.contains("findings.md")
                            && read("docs/findings.md").contains(&format!("| `{name}` |"))
                        || row.contains("see below") && text.contains(&format!("| `{name}` |"));
                    assert!(
                        elsewhere || row.contains(&format!("`{name}`")),
                        "{path}, or the page that the row names, lacks `{name}`: {row}"
                    );
                }
            }
        }
    }
}

#[test]
fn no_page_describes_a_flag_that_does_not_exist() {
    for verb in verbs() {
        let path = format!("docs/{}.md", verb.get_name());
        let known = flags(&verb);
        for (names, row) in described(&read(&path)) {
            for name in names {
                assert!(known.contains(&name), "{path}: {name} in {row}");
            }
        }
    }
}

/// Whether a bare flag on this page is one of ours.
fn about_verbs(path: &str) -> bool {
    let name = path.trim_start_matches("docs/").trim_end_matches(".md");
    let verb = verbs().iter().any(|verb| verb.get_name() == name);
    verb || ["README", "architecture", "measurement", "peers"].contains(&name)
}

#[test]
fn no_page_names_a_flag_or_verb_that_does_not_exist() {
    let verbs = verbs();
    let all: BTreeSet<String> = verbs.iter().flat_map(flags).collect();
    for path in pages() {
        for span in parse(&read(&path)).spans {
            let ours = span.starts_with("punctual ");
            // `hackbench -g 10` and `cargo xtask test` belong to other programs, `-g -l -s` are
            // hackbench's flags, and pages about other things have other programs' flags.
            let letters = path == "docs/load.md" && span.starts_with("-g ");
            let bare = span.starts_with('-') && !letters && about_verbs(&path);
            if !(ours || bare) {
                continue;
            }
            let mut words = span.split_whitespace();
            if ours {
                let verb = words.nth(1).unwrap_or_default();
                let known = Cli::command().find_subcommand(verb).is_some() || verb == "VERB";
                assert!(known, "{path}: `{span}`");
            }
            for word in words.take_while(|word| *word != "--") {
                let name = word.split('=').next().unwrap_or(word);
                let is_flag = name.starts_with('-') && name.len() > 1;
                assert!(!is_flag || all.contains(name), "{path}: `{span}`: {name}");
            }
        }
    }
}

#[test]
fn qualify_and_measure_describe_their_common_flags_equally() {
    let rows = |path: &str| -> Vec<String> {
        let rows = described(&read(path)).into_iter();
        let own = [
            "--source",
            "--path",
            "--over",
            "--gap",
            "--method",
            "--runtime",
            "--period",
            "--cross-check",
        ];
        rows.filter(|(names, _)| !own.iter().any(|own| names == &[*own]))
            .map(|(_, row)| row)
            .collect()
    };
    assert_eq!(rows("docs/qualify.md"), rows("docs/measure.md"));
}

#[test]
fn the_readme_lists_all_verbs() {
    let text = read("README.md");
    let verbs = verbs();
    let names: Vec<&str> = verbs.iter().map(Command::get_name).collect();
    let listed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| [`")?.split('`').next())
        .collect();
    assert_eq!(listed, names);
}

#[test]
fn verdicts_have_the_documented_exit_statuses() {
    for outcome in [
        Outcome::Pass,
        Outcome::Fail,
        Outcome::Inconclusive,
        Outcome::Invalid,
    ] {
        let row = format!("| {} | {} |", outcome.word(), outcome.exit_code());
        assert!(read("README.md").contains(&row), "README.md: {row}");
        let row = format!("| {} | {}", outcome.exit_code(), outcome.word());
        assert!(read("docs/qualify.md").contains(&row), "qualify: {row}");
    }
}

#[test]
fn sources_formats_and_shells_are_all_named() {
    let measure = read("docs/measure.md");
    for kind in punctual_tool::probe::kinds::KINDS {
        assert!(
            measure.contains(&format!("| `{}` |", kind.name)),
            "{}",
            kind.name
        );
    }
    let export = read("docs/export.md");
    for format in Format::ALL {
        assert!(export.contains(&format!("| `{format}` |")), "{format}");
    }
    let completions = read("docs/completions.md");
    let verbs = verbs();
    let verb = verbs.iter().find(|verb| verb.get_name() == "completions");
    let shell = verb.and_then(|verb| verb.get_positionals().next());
    let shells = shell.expect("it takes a shell").get_possible_values();
    assert!(shells.len() >= 3);
    for shell in shells {
        let word = format!("`{}`", shell.get_name());
        assert!(completions.contains(&word), "docs/completions.md: {word}");
    }
    let architecture = read("docs/architecture.md");
    let rooms = ["cli", "conduct", "launch", "system"];
    for room in rooms.map(|room| format!("| `{room}/` |")) {
        assert!(architecture.contains(&room), "{room}");
    }
    for entry in fs::read_dir(root().join("crates")).expect("the crates") {
        let name = entry.expect("an entry").file_name();
        let row = format!("| `crates/{}` |", name.display());
        assert!(architecture.contains(&row), "docs/architecture.md: {row}");
    }
    let load = read("docs/load.md");
    for generator in registry::ALL {
        let entry = format!("**`{}`**", generator.name);
        assert!(load.contains(&entry), "docs/load.md: {entry}");
    }
}

/// Words as a shell splits them, as far as the examples need that: single and double quotes,
/// and an end at `#`, `|`, `>`, `&` and `;`.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '|' | '>' | '&' | ';') => break,
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    assert!(quote.is_none(), "a quote is not closed: {line}");
    words.extend(word);
    words
}

#[test]
fn shell_words_are_split_as_a_shell_does() {
    assert_eq!(
        shell_words("punctual qualify --load 'make -j8' -o a > b # c"),
        ["punctual", "qualify", "--load", "make -j8", "-o", "a"]
    );
}

#[test]
fn every_example_parses() {
    let mut examples = 0;
    for path in pages() {
        for (language, lines) in parse(&read(&path)).blocks {
            if language != "console" {
                continue;
            }
            for line in lines {
                let Some(command) = line.strip_prefix("$ ") else {
                    continue;
                };
                let words = shell_words(command.strip_prefix("sudo ").unwrap_or(command));
                let program = words.first().map_or("", String::as_str);
                if program.rsplit('/').next() != Some("punctual") {
                    continue;
                }
                examples += 1;
                if let Err(error) = Cli::try_parse_from(&words) {
                    assert!(!error.use_stderr(), "{path}: {line}\n{error}");
                }
            }
        }
    }
    assert!(examples >= 20, "only {examples} examples were found");
}

/// Jobs for test farms and CI: a step is a line.
#[test]
fn every_step_of_a_job_parses() {
    let mut steps = 0;
    for file in ["lava/qualify.yaml", "ci/github.yml", "ci/gitlab.yml"] {
        let path = format!("integrations/{file}");
        for line in read(&path).lines() {
            let step = line.trim().trim_start_matches("- ");
            let step = step.strip_prefix("run: ").unwrap_or(step);
            let step = step.split(" || ").next().unwrap_or(step);
            if !step.starts_with("punctual ") {
                continue;
            }
            // A parameter of the job stands for flags.
            let step = step.replace("$FLAGS", "--deadline 100us");
            steps += 1;
            if let Err(error) = Cli::try_parse_from(shell_words(&step)) {
                panic!("{path}: {line}\n{error}");
            }
        }
    }
    assert_eq!(steps, 5);
}

/// The anchor of a heading on the web: lower case, dashes for spaces, no other signs.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let kept: String = heading.chars().filter(kept).collect();
    kept.to_lowercase().replace(' ', "-")
}

#[test]
fn every_relative_link_has_a_target() {
    for path in pages() {
        let text = read(&path);
        let prose = parse(&text).prose;
        for link in prose.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            if target.starts_with("https://") {
                continue;
            }
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
            let file = match file {
                "" => PathBuf::from(&path),
                file => folder.join(file),
            };
            let full = root().join(&file);
            assert!(full.exists(), "{path}: {target}");
            if !place.is_empty() {
                let text = fs::read_to_string(&full).expect("a page");
                let found = parse(&text).headings.iter().any(|h| anchor(h) == place);
                assert!(found, "{path}: {target}: no such heading");
            }
        }
    }
}

/// Checks the files and folders that architecture.md and CONTRIBUTING.md name: from the root, in
/// architecture.md also within a crate.
#[test]
fn architecture_and_contributing_name_existing_files() {
    let mut named = 0;
    let pages =
        ["docs/architecture.md", "CONTRIBUTING.md"].map(|page| (page, parse(&read(page)).spans));
    let spans = pages
        .into_iter()
        .flat_map(|(page, spans)| spans.into_iter().map(move |span| (page, span)));
    for (page, span) in spans {
        let is_path = [".rs", ".c", ".h", "/"]
            .iter()
            .any(|end| span.ends_with(end))
            || span.starts_with("crates/");
        // `crates/punctual/tests/load_*` names files by a prefix.
        if !is_path || span.contains('*') {
            continue;
        }
        named += 1;
        let in_a_crate = || {
            ["crates/punctual/src", "crates/capi", "crates/rt"]
                .iter()
                .any(|folder| root().join(folder).join(&span).exists())
                // `report/figures.rs` is a file of the crate `report`.
                || span.split_once('/').is_some_and(|(name, file)| {
                    let source = root().join("crates").join(name).join("src");
                    source.join(file).exists()
                })
        };
        let is_short = page != "CONTRIBUTING.md" || !span.contains('/') || span == "cli/";
        let found = root().join(&span).exists() || is_short && in_a_crate();
        assert!(found, "{page}: `{span}`");
    }
    assert!(named >= 30, "only {named} places were found");
}

/// Compares the numbers in measurement.md with the program's.
#[test]
fn measurement_has_the_programs_numbers() {
    let text = read("docs/measurement.md").replace("\n", " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let primes = punctual_rt::periodic::PRIMES;
    let mean = primes.iter().sum::<u64>() as f64 / primes.len() as f64;
    for words in [
        format!("only if at least {MIN_SAMPLES_BEYOND} samples lie beyond"),
        format!("fewer than {MIN_BURSTS} |"),
        format!("ξ ≥ {MAX_SHAPE}"),
        format!("more than {MAX_EXTRAPOLATION} times beyond it"),
        format!(
            "first makes {} cycles",
            punctual_tool::probe::thread::WARM_UP_CYCLES
        ),
        format!(
            "{} µs to {} µs, and their mean is {mean} µs",
            primes[0], primes[23]
        ),
        format!("at most {} rows", punctual_record::Timeline::ROWS),
        format!("a part each {} s", punctual_record::samples::PART_SECONDS),
        format!("\"{}\"", Run::FORMAT),
        format!("`run-{}.schema.json`", Run::VERSION),
    ] {
        assert!(text.contains(&words), "docs/measurement.md lacks: {words}");
    }
}

#[test]
fn the_readme_states_the_requirements_of_the_build() {
    let wanted = concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"), " or newer");
    assert!(read("README.md").contains(wanted), "{wanted}");
}

#[test]
fn every_picture_is_small_and_shown_by_a_page() {
    let shown: String = pages().iter().map(|page| read(page)).collect();
    let mut pictures = 0;
    for entry in fs::read_dir(root().join("docs/images")).expect("a directory") {
        let path = entry.expect("an entry").path();
        let picture = fs::read(&path).expect("a picture");
        assert!(picture.starts_with(b"\x89PNG"), "{}", path.display());
        let size = picture.len();
        assert!(size < 250_000, "{}: {size} bytes", path.display());
        let name = path.file_name().and_then(|name| name.to_str());
        let name = format!("images/{})", name.expect("UTF-8"));
        assert!(shown.contains(&name), "no page shows {name}");
        pictures += 1;
    }
    assert!(pictures > 0);
}
