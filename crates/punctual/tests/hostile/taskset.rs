//! Task sets in TOML and in rt-app's JSON: one that is accepted is analysed and shown, and saved as it
//! was read.

use punctual_record::taskset::TaskSet;
use punctual_record::taskset::analysis::SetOverheads;
use punctual_report::style::Style;
use punctual_taskset::analyse::Limits;
use punctual_taskset::{Format, Machine, analyse, read};

pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for format in [Format::Toml, Format::RtApp] {
        let read = match read(text, "fuzz", format) {
            Ok(read) => read,
            Err(fault) => {
                assert!(!fault.why.contains(char::is_control), "{fault:?}");
                continue;
            }
        };
        let saved = serde_json::to_vec(&read.set).expect("a set is JSON");
        let back: TaskSet = serde_json::from_slice(&saved).expect("what was saved is read");
        assert_eq!(back, read.set);
        // The analysis of many tasks takes its time, which is the fuzzer's.
        if read.set.tasks.len() > 8 {
            continue;
        }
        let machine = Machine {
            limits: Limits::usual(2, true),
            overheads: SetOverheads::default(),
        };
        let analysis = analyse(&read.set, &machine);
        let shown = punctual_report::exec::analysis(&analysis, &Style::plain());
        let is_control = |c: char| c.is_control() && c != '\n';
        assert!(!shown.contains(is_control), "{shown:?}");
    }
}
