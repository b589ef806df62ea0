//! Nonsense for the flags of verbs that make experiments.

use crate::input::refused;

#[test]
fn a_ladder_refuses_it() {
    let table: &[(&[&str], &[&str])] = &[
        (&["--code", "cobol"], &["--code", "rust, c"]),
        (&["--code", "c", "-q"], &["--code"]),
        (&["--rung", "sixth"], &["--rung", "quiet-interrupts"]),
        (&["-D", "0"], &["--duration", "such as 60"]),
        (&["-D", "20"], &["-D is too short", "12 rounds", "give -D"]),
        (&["-l", "5"], &["missing --rung"]),
        (&["--rung", "priority", "-l", "0"], &["--loops", "from 1"]),
        (&["--block", "soon"], &["--block", "such as 60"]),
        (
            &["--block", "900us"],
            &["--block", "longer than the interval"],
        ),
        (
            &["--block", "5h", "--work", "0"],
            &["--block", "million cycles"],
        ),
        (
            &["--block", "5s", "--work", "65536"],
            &["MiB of memory", "less --work"],
        ),
        (
            &["--rung", "priority", "--block", "5"],
            &["--block", "--rung"],
        ),
        (
            &["--rung", "priority", "-D", "10us"],
            &["-D must be longer"],
        ),
        (&["--rung", "priority", "-D", "1d"], &["a shorter -D"]),
        (&["--settle", "-1"], &["--settle", "such as 60"]),
        (&["-i", "0"], &["--interval", "from 1us"]),
        (&["--work", "65537"], &["--work", "from 0 to 65536"]),
        (&["--work", "64K"], &["--work", "from 0 to 65536"]),
        (&["-p", "0"], &["--priority", "from 1 to 99"]),
        (&["-a", "6000"], &["--affinity", "not online"]),
        (&["-a", "x"], &["--affinity"]),
        (&["--deadline", "0"], &["--deadline", "such as 100us"]),
        (&["--confidence", "1"], &["--confidence", "from 0.5"]),
        (&["--seed", "-1"], &["--seed", "a whole number"]),
        (&["--load", "makework"], &["--load", "hackbench"]),
        (&["--load-class", "rt"], &["--load-class", "other, batch"]),
        (&["--state"], &["--state", "needs a value"]),
        (&["-o", "/proc/nowhere/run"], &["-o", "/proc/nowhere/run"]),
        (&["--json", "-q"], &["--json", "--quiet"]),
        (&["here"], &["'here'", "`punctual ladder --help`"]),
    ];
    for (flags, wanted) in table {
        refused(&[&["ladder"], *flags].concat(), wanted);
    }
}

#[test]
fn interference_and_runtimes_refuse_it() {
    for (map, why) in [
        ("0", "from 64K to 1024G"),
        ("63K", "64K"),
        ("1025G", "1024G"),
        ("big", "100M"),
    ] {
        refused(&["interference", "--map", map], &["--map", why]);
    }
    for time in ["0", "999ms", "301s", "-1", "soon"] {
        let wanted = "from 1s to 5m";
        refused(&["interference", "-D", time], &["--duration", wanted]);
    }
    refused(&["interference", "4711"], &["'4711'"]);
    refused(&["interference", "--json", "-v"], &["--json", "--verbose"]);
    refused(&["interference", "--map"], &["--map", "needs a value"]);
    let runtimes = "expected one of jvm, python, go";
    refused(
        &["watch", "1", "--runtime", "perl"],
        &["--runtime", runtimes],
    );
    refused(&["watch", "1", "--runtime", ""], &["--runtime", "jvm"]);
    refused(
        &["watch", "1", "--runtime"],
        &["--runtime", "needs a value"],
    );
    refused(
        &["watch", "--system", "--runtime", "jvm"],
        &["--runtime", "--system"],
    );
    refused(
        &["watch", "--comm", "java", "--runtime", "jvm"],
        &["--runtime", "--comm"],
    );
    refused(
        &["watch", "1", "--children", "--runtime", "jvm"],
        &["--runtime", "--children"],
    );
}
