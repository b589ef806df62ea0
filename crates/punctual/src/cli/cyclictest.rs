//! cyclictest's flags that mean something else here, or nothing: the error says what to use
//! instead.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory};

use super::failure::Failure;
use super::flags::Cli;

/// A flag of cyclictest that punctual does not have.
struct Spelling {
    /// Its short forms.
    letters: &'static [char],
    /// Its long forms.
    words: &'static [&'static str],
    /// What to use here.
    here: &'static str,
}

const HISTOGRAM: &str = "a histogram of every latency is always kept; `punctual export DIR \
                         --format cyclictest` prints that of the run in DIR as cyclictest -h \
                         does, and the report draws it";
const EXPLAINED: &str = "late wake-ups are traced and explained without it; --explain-above \
                         sets the lowest latency, `punctual explain DIR` shows the bills";
const ALIGNED: &str = "all threads start at the same instant: leave it out";
const POWER: &str = "/dev/cpu_dma_latency is held at 0 us; --as-deployed changes no power \
                     setting";
const TIMER: &str = "use the source timer-signal: `punctual measure timer-signal`, or `punctual \
                     qualify --source timer-signal`";
const RELATIVE: &str = "use the source nanosleep-relative: `punctual measure nanosleep-relative`, \
                        or `punctual qualify --source nanosleep-relative`";
const SPIKES: &str = "the worst wake-ups of each CPU are always kept with their times; \
                      --samples writes every sample";

const SPELLINGS: &[Spelling] = &[
    Spelling {
        letters: &['H'],
        words: &["histogram", "histofall", "histfile"],
        here: HISTOGRAM,
    },
    Spelling {
        letters: &['A'],
        words: &["aligned", "secaligned"],
        here: ALIGNED,
    },
    Spelling {
        letters: &['c'],
        words: &["clock"],
        here: "the clock is always CLOCK_MONOTONIC, cyclictest's -c 0: leave it out",
    },
    Spelling {
        letters: &['e'],
        words: &["latency", "default-system", "laptop"],
        here: POWER,
    },
    Spelling {
        letters: &['F'],
        words: &["fifo"],
        here: "there is no named pipe; --live prints cyclictest's lines, and the files of the \
               run directory are rewritten every 5 s",
    },
    Spelling {
        letters: &[],
        words: &["mainaffinity"],
        here: "-a sets the CPUs that are probed; the tool's own threads run on the others",
    },
    Spelling {
        letters: &['M'],
        words: &["refresh_on_max"],
        here: "the display is redrawn four times a second; -q shows the verdict alone",
    },
    Spelling {
        letters: &[],
        words: &["oscope"],
        here: "--samples writes every sample; -o DIR names the run directory",
    },
    Spelling {
        letters: &['y'],
        words: &[],
        here: "use --policy fifo, rr or other",
    },
    Spelling {
        letters: &['Q'],
        words: &["priospread"],
        here: "every thread has the same priority: use -p",
    },
    Spelling {
        letters: &['r'],
        words: &["relative"],
        here: RELATIVE,
    },
    Spelling {
        letters: &['R'],
        words: &["resolution"],
        here: "every run checks the clock's resolution and states it: leave it out",
    },
    Spelling {
        letters: &['s'],
        words: &["system"],
        here: RELATIVE,
    },
    Spelling {
        letters: &[],
        words: &["smi"],
        here: "a run that is explained counts system management interrupts; `punctual measure \
               hardware` measures the time that they take",
    },
    Spelling {
        letters: &[],
        words: &["spike", "spike-nodes"],
        here: SPIKES,
    },
    Spelling {
        letters: &['U'],
        words: &["numa"],
        here: "every thread is pinned to one CPU and uses the memory near it: leave it out",
    },
    Spelling {
        letters: &['x'],
        words: &["posix_timers"],
        here: TIMER,
    },
    Spelling {
        letters: &['B', 'C', 'E', 'f', 'I', 'P', 'T', 'w', 'W', 'X'],
        words: &["tracemark", "ftrace", "dbg_cyclictest"],
        here: EXPLAINED,
    },
];

const JSON_FILE: &str = "--json prints the summary on standard output; `punctual export DIR \
                         --format rt-tests-json -o FILE` writes cyclictest's file for the run in \
                         DIR";

/// Refuses a measuring verb's command line that has one of these flags, also one without a verb.
pub fn refused(arguments: &[OsString]) -> Option<Failure> {
    let first = arguments.get(1)?.to_str()?;
    let (verb, words) = match first {
        "measure" | "qualify" => (first, &arguments[2..]),
        _ if first.starts_with('-') => ("measure", &arguments[1..]),
        _ => return None,
    };
    hint(Cli::command().find_subcommand(verb)?, words).map(Failure::usage)
}

/// The hint for the first flag in `words` that is cyclictest's and not `verb`'s. Flags and their
/// values are split as `clap` does.
pub fn hint(verb: &Command, words: &[OsString]) -> Option<String> {
    let mut words = words.iter().map(|word| word.to_str().unwrap_or("?"));
    let mut ahead = words.next();
    while let Some(word) = ahead {
        ahead = words.next();
        let takes_next = if word == "--" {
            return None;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let known = verb
                .get_arguments()
                .find(|arg| arg.get_long() == Some(name));
            match known {
                _ if name == "help" => return None,
                Some(_) if name == "json" && value.is_some() => {
                    return Some(format!("--{long}: {JSON_FILE}"));
                }
                Some(arg) => value.is_none() && takes_value(arg),
                None => {
                    let spelling = SPELLINGS.iter().find(|it| it.words.contains(&name));
                    return spelling.map(|it| format!("--{name}: {}", it.here));
                }
            }
        } else {
            match cluster(verb, word, ahead) {
                Found::Hint(line) => return Some(line),
                Found::Nothing => return None,
                Found::Known { takes_next } => takes_next,
            }
        };
        if takes_next {
            ahead = words.next();
        }
    }
    None
}

/// What a word is that is not a long flag.
enum Found {
    /// A flag of cyclictest, with its hint.
    Hint(String),
    /// Something that clap refuses.
    Nothing,
    /// A value, or known short flags.
    Known {
        /// Whether the next word is the value of the last letter.
        takes_next: bool,
    },
}

/// Looks at `-qh400`, letter by letter.
fn cluster(verb: &Command, word: &str, next: Option<&str>) -> Found {
    let known = |takes_next| Found::Known { takes_next };
    let Some(letters) = word.strip_prefix('-') else {
        return known(false);
    };
    for (at, letter) in letters.char_indices() {
        let rest = &letters[at + letter.len_utf8()..];
        if letter == 'h' {
            let limit = rest.strip_prefix('=').unwrap_or(rest);
            let limit = if limit.is_empty() { next } else { Some(limit) };
            return match limit {
                Some(limit) if is_number(limit) => {
                    Found::Hint(format!("-h {limit}: {HISTOGRAM}; -h alone is help"))
                }
                _ => Found::Nothing,
            };
        }
        let arg = verb
            .get_arguments()
            .find(|arg| arg.get_short() == Some(letter));
        match arg {
            Some(arg) if takes_value(arg) => return known(rest.is_empty()),
            Some(arg) if arg.get_num_args().is_some_and(|n| n.takes_values()) => {
                return known(false);
            }
            Some(_) => {}
            None => {
                let spelling = SPELLINGS.iter().find(|it| it.letters.contains(&letter));
                return spelling.map_or(Found::Nothing, |it| {
                    Found::Hint(format!("-{letter}: {}", it.here))
                });
            }
        }
    }
    known(false)
}

/// Whether the next word is its value, whatever that is.
fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && arg.get_num_args().is_none_or(|n| n.min_values() > 0)
}

/// Whether it can be a histogram's limit for cyclictest.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Option<String> {
        let mut command = Cli::command();
        command.build();
        let verb = command.find_subcommand("measure").unwrap();
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        hint(verb, &words)
    }

    #[test]
    fn cyclictests_histogram_flag_is_distinguished_from_help() {
        for words in [
            "-h400",
            "-h 400",
            "-h=400",
            "-qh100",
            "-q -p99 -h 7",
            "-H400",
            "-qH 400",
            "-l 10 --histogram=400",
            "--histofall 5",
            "-t -h400",
            "-a -h400",
            "-Nmh400",
        ] {
            let line = of(words).unwrap_or_else(|| panic!("{words}"));
            assert!(line.contains("always kept"), "{words}: {line}");
        }
        for words in [
            "-h",
            "-qh",
            "-h -l 5",
            "-h nanosleep",
            "--help -h400",
            "-o -h400",
            "-oh400",
            "--load -h400",
            "--load=-h400",
            "-- -h400",
            "timerfd",
            "",
            "-",
            "-l 400",
        ] {
            assert_eq!(of(words), None, "{words}");
        }
    }

    #[test]
    fn no_hint_is_given_for_a_flag_that_punctual_has() {
        let command = Cli::command();
        for verb in ["measure", "qualify"] {
            let verb = command.find_subcommand(verb).unwrap();
            for arg in verb.get_arguments() {
                let taken = |it: &Spelling| {
                    arg.get_short()
                        .is_some_and(|letter| it.letters.contains(&letter))
                        || arg.get_long().is_some_and(|word| it.words.contains(&word))
                };
                assert!(!SPELLINGS.iter().any(taken), "{arg}");
            }
        }
    }
}
