//! include/punctual.h is generated from the sources.

use std::fs;
use std::path::Path;

/// The files with functions for C, in the order of the header.
const SOURCES: [&str; 16] = [
    "version.rs",
    "stack.rs",
    "inspect.rs",
    "original.rs",
    "sched.rs",
    "thread.rs",
    "memory.rs",
    "clock.rs",
    "ring.rs",
    "advice.rs",
    "watchpoint.rs",
    "irq.rs",
    "cpuset.rs",
    "sync.rs",
    "channel.rs",
    "message.rs",
];

#[test]
fn the_committed_header_is_the_generated_one() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut sources = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        sources = sources.with_src(here.join("src").join(source));
    }
    let bindings = sources.generate().expect("the sources are read");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).expect("text");
    let made = with_comments_of_c89(&made);
    let committed = here.join("include/punctual.h");
    if std::env::var_os("PUNCTUAL_WRITE_HEADER").is_some() {
        fs::write(&committed, &made).expect("the header is written");
    }
    let found = fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        found == made,
        "include/punctual.h differs from the sources; regenerate it with \
         PUNCTUAL_WRITE_HEADER=1 cargo test -p punctual-capi --test c -- header::"
    );
}

/// Converts blocks of `//` lines to comments that C89 has too.
fn with_comments_of_c89(header: &str) -> String {
    let mut made = String::new();
    let mut lines = header.lines().peekable();
    let mut within = false;
    while let Some(line) = lines.next() {
        // cbindgen's own remarks after the end of the C++ part.
        let line = match line.split_once("//") {
            Some((code, _)) if !code.trim().is_empty() => code.trim_end(),
            _ => line,
        };
        let is_comment = |line: &str| line.trim_start().starts_with("//");
        if !is_comment(line) {
            made += &format!("{line}\n");
            continue;
        }
        let (indent, text) = line.split_once("//").unwrap_or_default();
        assert!(!text.contains("*/"), "{line}");
        let start = if within { " *" } else { "/*" };
        within = lines.peek().is_some_and(|next| is_comment(next));
        let end = if within { "" } else { " */" };
        made += &format!("{indent}{start}{text}{end}\n");
    }
    made
}
