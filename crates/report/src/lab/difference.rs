//! The first difference of two runs that should be the same.

use serde_json::Value;

use punctual_record::Run;

/// A value is shown no longer than this.
const SHOWN: usize = 60;

/// Where two runs first differ and how, in one line; nothing where they are the same. What
/// a run depends on is left aside: here is asked what came of it.
#[must_use]
pub fn first_difference(before: &Run, after: &Run) -> Option<String> {
    let value = |run: &Run| {
        let mut value = serde_json::to_value(run).unwrap_or(Value::Null);
        if let Some(fields) = value.as_object_mut() {
            fields.remove("laboratory");
        }
        value
    };
    // What a reader knows best first: figures, then everything.
    for thread in 0..before.threads.len().min(after.threads.len()) {
        let (a, b) = (
            &before.threads[thread].latency,
            &after.threads[thread].latency,
        );
        let pairs = [
            ("samples", a.count, b.count),
            ("maximum", a.max_ns, b.max_ns),
            ("minimum", a.min_ns, b.min_ns),
        ];
        for (name, a, b) in pairs {
            if a != b {
                let label = before.thread_label(thread);
                return Some(format!("{name} of {label}: {a} before, {b} now"));
            }
        }
    }
    differs("", &value(before), &value(after))
}

fn differs(place: &str, before: &Value, after: &Value) -> Option<String> {
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            names.into_iter().find_map(|name| {
                let place = if place.is_empty() {
                    name.clone()
                } else {
                    format!("{place}.{name}")
                };
                let none = Value::Null;
                differs(
                    &place,
                    a.get(name).unwrap_or(&none),
                    b.get(name).unwrap_or(&none),
                )
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(index, (a, b))| differs(&format!("{place}[{index}]"), a, b)),
        (Value::Array(a), Value::Array(b)) => Some(format!(
            "{place}: {} entries before, {} now",
            a.len(),
            b.len()
        )),
        (a, b) if a == b => None,
        (a, b) => Some(format!("{place}: {} before, {} now", shown(a), shown(b))),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_place_is_named() {
        let a = json!({"a": 1, "b": {"c": [1, 2, 3]}, "d": "x"});
        assert_eq!(differs("", &a, &a), None);
        for (b, words) in [
            (
                json!({"a": 1, "b": {"c": [1, 2, 4]}, "d": "y"}),
                "b.c[2]: 3 before, 4 now",
            ),
            (
                json!({"a": 1, "b": {"c": []}, "d": "x"}),
                "b.c: 3 entries before, 0 now",
            ),
            (
                json!({"a": 1, "b": {"c": [1, 2, 3]}}),
                "d: \"x\" before, null now",
            ),
            (
                json!({"a": "ä".repeat(200), "d": "x"}),
                &*format!("a: 1 before, \"{}... now", "ä".repeat(SHOWN - 1)),
            ),
        ] {
            assert_eq!(differs("", &a, &b).as_deref(), Some(words));
        }
    }
}
