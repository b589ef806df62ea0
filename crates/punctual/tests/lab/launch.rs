//! Launch times in a guest: the queueing discipline `fq` sends at them, and what does not is noticed.

use crate::common::{Place, need};
use crate::path::between_namespaces;
use crate::ready;

/// Without `fq`, with it, and with one that no message passes.
const SCRIPT: &str = "set +e
./ip netns exec far punctual respond 10.0.0.2 --raw -q >/dev/null 2>&1 &
./sleep 0.5
measure() {
    over=$1 to=$2
    shift 2
    punctual measure $over 10.0.0.2 -D 1 -i 10013 --deadline 10ms -q --no-explain -o /tmp/$to $* >/dev/null
    echo $to $?
}
punctual measure udp 10.0.0.2 -D 1 --txtime 200us --no-explain -q -o /tmp/none 2>&1
echo none $?
./tc qdisc replace dev here root fq || echo no fq
measure udp plain
measure udp udp --txtime 200us
measure raw raw --txtime 200us --burst 3
./tc qdisc replace dev here root handle 1: prio || echo no prio
./tc qdisc add dev here parent 1:3 fq || echo no fq
measure udp passed --txtime 200us
for to in plain udp raw passed; do ./cat /tmp/$to/run.json; done
";

#[test]
fn messages_leave_at_their_launch_times_or_the_run_is_invalid() {
    need!(ready());
    let place = Place::new();
    let ended = between_namespaces(&place, &["sch_fq", "sch_prio"], SCRIPT);
    let (said, records) = ended
        .stdout
        .split_at(ended.stdout.find('{').expect("records"));
    let refused = "punctual: --txtime: here has the queueing discipline noqueue, which knows no launch \
                   times: `tc qdisc replace dev here root fq`\n";
    assert_eq!(
        said,
        format!("{refused}none 1\nplain 3\nudp 3\nraw 3\npassed 4\n")
    );
    let records = serde_json::Deserializer::from_str(records).into_iter();
    let records: Result<Vec<serde_json::Value>, _> = records.collect();
    let [plain, udp, raw, passed] = &records.expect("records")[..] else {
        panic!("{}", ended.stdout);
    };
    let number = |of: &serde_json::Value, at: &str| of.pointer(at).and_then(|it| it.as_u64());
    assert!(plain.pointer("/path/launch").is_none());
    for run in [udp, raw] {
        let launch = run.pointer("/path/launch").expect("launch times");
        assert_eq!(launch["discipline"], "fq", "{launch}");
        assert_eq!(launch["interface"], "here", "{launch}");
        assert_eq!(
            (number(launch, "/early"), number(launch, "/missed")),
            (Some(0), Some(0))
        );
        assert_eq!(number(run, "/path/counts/lost"), Some(0));
        // The thread wakes up before, and its lateness is counted from then on.
        let late_ns = number(run, "/path/send_lateness/max_ns").expect("lateness");
        assert!(late_ns < 100_000, "{late_ns}");
    }
    assert_eq!(number(raw, "/path/counts/sent"), Some(300));
    // What the timer of the queueing discipline takes is more than a thread's wake-up.
    let least_ns = |run: &serde_json::Value| {
        let run: punctual_record::Run = serde_json::from_value(run.clone()).expect("a record");
        run.threads[0].latency.min_ns
    };
    assert!(least_ns(udp) > least_ns(plain), "{}", least_ns(udp));
    let launch = passed.pointer("/path/launch").expect("launch times");
    assert_eq!(
        number(launch, "/early"),
        number(passed, "/path/counts/sent"),
        "{launch}"
    );
    let demands = passed["demands"].as_array().expect("demands");
    let unmet = demands.iter().find(|it| it["name"] == "launch-times");
    assert_eq!(unmet.expect("a demand")["standing"], "not-in-force");
}
