//! include/punctual.h is what the sources say.

use std::fs;
use std::path::Path;

/// Those with functions for C, in the order of the header.
const SOURCES: [&str; 11] = [
    "stack.rs",
    "inspect.rs",
    "sched.rs",
    "thread.rs",
    "memory.rs",
    "clock.rs",
    "ring.rs",
    "advice.rs",
    "watchpoint.rs",
    "irq.rs",
    "cpuset.rs",
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
    let committed = here.join("include/punctual.h");
    if std::env::var_os("PUNCTUAL_WRITE_HEADER").is_some() {
        fs::write(&committed, &made).expect("the header is written");
    }
    let found = fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        found == made,
        "include/punctual.h is not what the sources say; write it anew with \
         PUNCTUAL_WRITE_HEADER=1 cargo test -p punctual-capi --test header"
    );
}
