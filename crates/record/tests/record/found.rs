//! What findings hold: read back as it was written, and the text that stood in its place once.

use std::fmt::Debug;

use punctual_record::finding::{
    BadFinding, Fault, Item, NotApplicable, ReadResult, Reading, Source, Unknown,
};
use punctual_record::{Hypervisor, KernelCall, RunSource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json, to_value};

use super::findings_of_run::{findings_of_every_kind, items, readings};

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let json = to_value(value).unwrap();
    assert_eq!(&from_value::<T>(json.clone()).unwrap(), value, "{json}");
}

#[test]
fn findings_come_back_as_they_were_written() {
    comes_back(&findings_of_every_kind());
    items().iter().for_each(comes_back);
    readings().iter().for_each(comes_back);
}

/// A machine may name anything like one of our kinds.
#[test]
fn a_name_of_the_machine_stays_a_name() {
    for name in ["cpu", "kind", "swap", "threads", "programs", "name", ""] {
        comes_back(&Item::from(name));
        comes_back(&Source::from(name));
        assert_eq!(to_value(Item::from(name)).unwrap(), json!(name));
        assert_eq!(to_value(Source::from(name)).unwrap(), json!(name));
    }
}

#[test]
fn text_of_earlier_builds_is_read_and_kept() {
    let finding: BadFinding = from_value(json!({
        "id": "smt-siblings",
        "fault": {"present": ["CPU 1", {"cpu": 2}]},
        "readings": [{"source": "running programs", "result": {"value": "none of cron, crond"}}],
    }))
    .unwrap();
    let items = vec!["CPU 1".into(), Item::Cpu(2)];
    assert_eq!(finding.fault, Fault::Present(items));
    let reading = Reading {
        source: "running programs".into(),
        result: ReadResult::Value("none of cron, crond".to_owned()),
    };
    assert_eq!(finding.readings, [reading]);
    comes_back(&finding);
    let text = json!({"absent": "a second NUMA node"});
    let absent = || Item::from("a second NUMA node");
    assert_eq!(
        from_value::<NotApplicable>(text.clone()).unwrap(),
        NotApplicable::Absent(absent())
    );
    assert_eq!(
        from_value::<Unknown>(text).unwrap(),
        Unknown::Absent(absent())
    );
}

#[test]
fn what_mostly_has_a_name_is_read_with_and_without_one() {
    let hypervisor = |signature: Option<&str>| Hypervisor::Unknown {
        signature: signature.map(str::to_owned),
        firmware: None,
    };
    comes_back(&KernelCall::Number(999));
    comes_back(&KernelCall::FaultOrInterrupt {});
    comes_back(&hypervisor(None));
    comes_back(&hypervisor(Some("ABC")));
    comes_back(&RunSource::Watch { of: None });
    comes_back(&RunSource::Watch {
        of: Some("controller".to_owned()),
    });
    // A name, and what earlier builds wrote.
    for text in [
        "read",
        "number",
        "fault_or_interrupt",
        "page fault or interrupt",
        "unknown",
        "unknown: ABC",
        "watch",
        "watch of controller",
    ] {
        let json = json!(text);
        assert_eq!(from_value::<KernelCall>(json.clone()).unwrap(), text.into());
        assert_eq!(from_value::<Hypervisor>(json.clone()).unwrap(), text.into());
        assert_eq!(from_value::<RunSource>(json.clone()).unwrap(), text.into());
        assert_eq!(to_value(KernelCall::from(text)).unwrap(), json);
        assert_eq!(to_value(Hypervisor::from(text)).unwrap(), json);
        assert_eq!(to_value(RunSource::from(text)).unwrap(), json);
    }
}

#[test]
fn what_is_neither_an_item_nor_a_text_is_refused() {
    for wrong in [
        json!(7),
        json!(null),
        json!([]),
        json!({}),
        json!({"cpu": -1}),
        json!({"cpu": "1"}),
        json!({"imaginary": 1}),
        json!({"kind": "imaginary"}),
        json!({"cpu": 1, "numa_node": "0"}),
    ] {
        assert!(from_value::<Item>(wrong.clone()).is_err(), "{wrong}");
        assert!(from_value::<Source>(wrong.clone()).is_err(), "{wrong}");
        let fault: Value = json!({"present": [wrong]});
        assert!(from_value::<Fault>(fault).is_err());
    }
}
