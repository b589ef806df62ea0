//! Events of every kind, written and read back.

use punctual_record::{Event, Happening, ProbeRefusal, Unavailable};

use crate::kinds;

#[test]
fn every_event_is_read_back() {
    let furthest = Unavailable::NoProbe {
        offset: u64::MAX,
        refusal: ProbeRefusal::Instruction,
    };
    let reasons = kinds::unavailable().into_iter().chain([furthest]);
    let of_reason = |why: Unavailable| {
        let mark = "tick".to_owned();
        [
            Happening::NotExplained {
                why: why.clone(),
                gaps: false,
                messages: false,
            },
            Happening::MarkRefused { mark, why },
        ]
    };
    let of_reasons = reasons.flat_map(of_reason);
    let events = of_reasons.map(|what| Event::new(1, what));
    for event in events.chain(kinds::events()) {
        let json = serde_json::to_string(&event).expect("JSON");
        let read: Event = serde_json::from_str(&json).expect(&json);
        assert_eq!(read, event, "{json}");
    }
}
