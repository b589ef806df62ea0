//! `punctual lab -- punctual interference`: in a guest with a known kernel, who waits is known.

use serde_json::Value;

use super::common::{Place, need};
use super::{lab, ready};

#[test]
fn on_a_kernel_with_one_lock_for_all_mappings_faults_and_readers_of_proc_wait_for_the_mappers() {
    need!(ready());
    let place = Place::new();
    let command = [
        "punctual",
        "interference",
        "--map",
        "20M",
        "-D",
        "2",
        "--json",
    ];
    let flags = ["--kernel", "standard", "--no-explain", "--"];
    let ended = lab(&place, &[&flags[..], &command].concat()).expect(0);
    let begin = ended.stdout.find('{').expect("JSON");
    let mut values = serde_json::Deserializer::from_str(&ended.stdout[begin..]).into_iter();
    let done: Value = values.next().expect("JSON").expect("JSON");
    let number = |value: &Value| value.as_u64().expect("a number");
    for it in done["operations"].as_array().expect("a list") {
        let name = it["operation"].as_str().expect("a name");
        let (waits, mapped) = (
            number(&it["waits"]["count"]),
            number(&it["beside"]["max_ns"]),
        );
        match name {
            "futex" | "condvar" | "mutex" => assert_eq!(waits, 0, "{it:#}"),
            _ => {
                assert!(waits > 0, "{it:#}");
                // Virtual time: what unmaps 20 MB takes longer than a whole operation without it.
                let alone = number(&it["alone"]["max_ns"]);
                assert!(mapped > 10 * alone, "{it:#}");
                let rows = it["longest"]["rows"].as_array().expect("rows");
                let mapper = rows.iter().find(|row| row["thread"]["name"] == "mapper");
                assert!(mapper.is_some(), "{it:#}");
            }
        }
    }
}
