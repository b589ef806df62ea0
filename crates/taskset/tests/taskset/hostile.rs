//! Any text ends in a set that can be analysed, or in one line.

use proptest::prelude::*;
use punctual_record::taskset::analysis::SetOverheads;
use punctual_taskset::analyse::Limits;
use punctual_taskset::{Format, Machine, analyse, read};

fn check(text: &str) {
    for format in [Format::Toml, Format::RtApp] {
        match read(text, "file", format) {
            Ok(read) => {
                let machine = Machine {
                    limits: Limits::usual(2, true),
                    overheads: SetOverheads::default(),
                };
                let analysis = analyse(&read.set, &machine);
                assert_eq!(analysis.tasks.len(), read.set.tasks.len());
            }
            Err(fault) => {
                assert!(
                    fault.line >= 1 && fault.line <= text.lines().count().max(1) + 1,
                    "{fault}"
                );
                assert!(!fault.why.contains('\n') && fault.why.chars().count() <= 300);
            }
        }
    }
}

const ROBOT: &str = include_str!("../../../../examples/tasksets/robot.toml");
const AUDIO: &str = include_str!("../../../../examples/tasksets/audio.toml");
const THREADS: &str = r#"{ "tasks" : { "tick" : { "policy" : "SCHED_FIFO", "cpus" : [0],
    "resume" : "b", "timer" : { "ref" : "x", "period" : 1000 } },
    "b" : { "lock" : "m", "run" : 10, "unlock" : "m", "suspend" : "b", }, },
    "global" : { "duration" : 2 } }"#;

/// Words that matter to the readers.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "[[task]]\n",
        "[[lock]]\n",
        "[[chain]]\n",
        "[[task.phase]]\n",
        "name = \"a\"\n",
        "name = \"b\"\n",
        "priority = 80\n",
        "cpu = 0\n",
        "period = \"1ms\"\n",
        "after = \"a\"\n",
        "every = 3\n",
        "work = \"1us\"\n",
        "work = [{lock=\"a\",work=[{run=\"1us\"}]}]\n",
        "runtime = \"1ms\"\n",
        "deadline = \"1d\"\n",
        "jitter = \"1h\"\n",
        "tasks = [\"a\",\"b\"]\n",
        "protocol = \"plain\"\n",
        "wcet = \"1h\"\n",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"tasks\"",
        "\"a\"",
        "\"run\" : 5,",
        "\"timer\" : {\"period\" : 5},",
        "\"suspend\" : \"a\",",
        "\"resume\" : \"a\",",
        "\"loop\" : 9,",
        "\"lock\" : \"m\",",
        "\"unlock\" : \"m\",",
        "/*",
        "*/",
        "//",
        "\"",
        "-1",
        "\\",
        "é",
        "\u{0}",
    ];
    prop::sample::select(words.map(str::to_owned).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn no_heap_of_words_makes_a_reader_or_the_analysis_panic(words in prop::collection::vec(word(), 0..60)) {
        check(&words.concat());
    }

    #[test]
    fn no_damage_to_a_set_makes_a_reader_or_the_analysis_panic(
        which in 0usize..3, at in 0usize..2_000, length in 0usize..40, with in word(),
    ) {
        let text = [ROBOT, AUDIO, THREADS][which];
        let bytes = text.as_bytes();
        let at = at.min(bytes.len());
        let end = (at + length).min(bytes.len());
        let damaged = [&bytes[..at], with.as_bytes(), &bytes[end..]].concat();
        check(&String::from_utf8_lossy(&damaged));
    }
}

#[test]
fn deep_and_long_texts_end() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"tasks\":{\"a\":{", "}}}")] {
        check(&(open.repeat(100_000) + &close.repeat(100_000)));
    }
    let locks = "\"lock\" : \"m\",".repeat(60_000);
    check(&format!(
        "{{ \"tasks\" : {{ \"a\" : {{ {locks} \"sleep\" : 1 }} }} }}"
    ));
    let loops = "{ \"tasks\" : { \"a\" : { \"phases\" : { \"p\" : { \"loop\" : 1000000000, \"run\" : 1 }, \"q\" : { \"sleep\" : 5 } } } } }";
    check(loops);
    check(&loops.replace("\"run\" : 1", "\"run\" : 1, \"sleep\" : 1, \"run\" : 1"));
    let huge = "{ \"tasks\" : { \"a\" : { \"instance\" : 256, \"policy\" : \"SCHED_FIFO\", \"cpus\" : [0], \"run\" : 1, \"sleep\" : 3600000000 } } }";
    check(huge);
}
