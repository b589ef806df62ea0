//! Damaged records, each made from the sound one by one change.

/// A record as it was written once.
pub const SOUND: &str = include_str!("../data/run-2.json");

pub struct Damaged {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// The place in the record, and the reason.
    pub error: &'static str,
}

/// Each kind of damage once.
pub fn records() -> Vec<Damaged> {
    let mut records = whole_texts();
    records.extend(replaced());
    records
}

fn whole_texts() -> Vec<Damaged> {
    [
        (
            "empty",
            String::new(),
            "line 1, column 0: EOF while parsing a value",
        ),
        (
            "zeroes",
            "\0".repeat(512),
            "line 1, column 1: expected value",
        ),
        (
            "of another program",
            "{\"hello\": \"world\"}".to_owned(),
            "format: not a punctual record: expected \"format\": \"punctual-run\"",
        ),
        (
            "only a header",
            "{\n \"format\": \"punctual-run\",\n \"version\": 2\n}".to_owned(),
            "line 4, column 1: missing field `tool`",
        ),
        (
            "truncated",
            SOUND[..SOUND.len() / 2].to_owned(),
            "line 341, column 2, at analysis.total.percentiles[2]: EOF while parsing an object",
        ),
        (
            "two records",
            SOUND.repeat(2),
            "line 625, column 2: trailing characters",
        ),
        (
            "merge conflict",
            format!("<<<<<<< HEAD\n{SOUND}"),
            "line 1, column 1: expected value",
        ),
    ]
    .map(|(name, text, error)| Damaged {
        name,
        bytes: text.into(),
        error,
    })
    .into()
}

/// Its first place in the text is the one that is meant.
fn replaced() -> Vec<Damaged> {
    const ENCODED: &str = "\"encoded\": \"";
    let (_, histogram) = SOUND.split_once(ENCODED).expect("a histogram");
    let (histogram, _) = histogram.split_once('"').expect("its end");
    let half = &histogram[..172];
    // 8 MiB of zeros, compressed.
    let bomb = format!(
        "HISTFAAAH+N42uzBAQEAAACAkP6v7ggK{}CA24MDAgAAAAAh/183J{}CcBQeAAAE=",
        "A".repeat(5_458),
        "A".repeat(5_377)
    );
    // Not compressed: counts whose sum exceeds 64 bits.
    let overflow = format!(
        "HISTEwAAAEsAAAAAAAAABQAAAAAAAAABQAAAAAAAAAA/8AAAAAAAAP//f/{}7//////////w==",
        "7///////////".repeat(7)
    );
    [
        (
            "newer",
            "\"version\": 2",
            "\"version\": 3",
            "written by a newer program (record version 3, this program reads up to 2)",
        ),
        (
            "negative version",
            "\"version\": 2",
            "\"version\": -1",
            "line 3, column 15, at version: invalid value: integer `-1`, expected u64",
        ),
        (
            "a confidence of two",
            "\"confidence\": 0.95",
            "\"confidence\": 2",
            "request.confidence: 2 does not lie between 0 and 1",
        ),
        (
            "negative time",
            "\"measured_ns\": 200000000",
            "\"measured_ns\": -5",
            "line 162, column 19, at measured_ns: invalid value: integer `-5`, expected u64",
        ),
        (
            "null for a float",
            "\"rate\": 100000.0",
            "\"rate\": null",
            "line 292, column 18, at loads[0].rate: invalid type: null, expected f64",
        ),
        (
            "threads are text",
            "\"threads\": [",
            "\"threads\": \"none\", \"others\": [",
            "line 163, column 19, at threads: invalid type: string \"none\", expected a sequence",
        ),
        (
            "peaks backwards",
            "1001000000",
            "1194000000",
            "threads[0].peaks[1]: not in order of time",
        ),
        (
            "count off by one",
            "\"count\": 200",
            "\"count\": 201",
            "threads[0].latency: the histogram does not agree with its count",
        ),
        (
            "counts overflow",
            histogram,
            &overflow,
            "threads[0].latency: the histogram has an impossible count",
        ),
        (
            "half a histogram",
            histogram,
            half,
            "threads[0].latency: the encoded histogram is cut short",
        ),
        (
            "inflates without end",
            histogram,
            &bomb,
            "threads[0].latency: the encoded histogram is too long",
        ),
    ]
    .map(|(name, from, to, error)| {
        let text = SOUND.replacen(from, to, 1);
        assert_ne!(text, SOUND, "{name}");
        Damaged {
            name,
            bytes: text.into(),
            error,
        }
    })
    .into()
}
