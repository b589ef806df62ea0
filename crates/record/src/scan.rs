//! A first look at JSON from anywhere, before memory is given to it.
//!
//! `{}` costs two bytes in a file and a hundred in memory; this pass bounds how
//! many values there are, how long lists get and how deep they nest. It does not
//! say that the text is JSON: the parser does, afterwards.

use std::path::Path;

use super::error::RecordError;

/// What a text may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Levels of nesting.
    pub depth: usize,
    /// Entries of one list or object.
    pub entries: u32,
    /// Entries in all.
    pub total: u32,
    /// Bytes of one string as it is written.
    pub string: usize,
}

/// Of our own record: see [`super::bounds::Bounds`] for what each list may hold.
pub const RECORD: Limits = Limits {
    depth: 24,
    entries: 1 << 20,
    total: 1 << 22,
    string: 1 << 24,
};

/// Of foreign results.
pub const FOREIGN: Limits = Limits {
    depth: 12,
    entries: 1 << 20,
    total: 1 << 22,
    string: 1 << 20,
};

/// Where a text breaks a limit and which.
#[derive(Debug, PartialEq, Eq)]
pub struct Excess {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
}

/// The bytes that [`scan`] looks at outside strings.
const WEIGHTY: [bool; 256] = {
    let mut weighty = [false; 256];
    let bytes = b"\"[]{},";
    let mut index = 0;
    while index < bytes.len() {
        weighty[bytes[index] as usize] = true;
        index += 1;
    }
    weighty
};

impl Limits {
    /// Whether a text is too short to break a limit, that of depth aside: the parser has one
    /// of its own (128 levels) for what it keeps, and recurses into nothing else.
    fn hold_for_any(&self, length: usize) -> bool {
        length < self.string.min(self.entries.min(self.total) as usize)
    }
}

/// [`scan`], with the file named in the error. Nearly every record is spared it.
pub fn check(path: &Path, text: &[u8], limits: &Limits) -> Result<(), RecordError> {
    if limits.hold_for_any(text.len()) {
        return Ok(());
    }
    scan(text, limits).map_err(|e| {
        let place = format!("line {}, column {}", e.line, e.column);
        RecordError::malformed(path, place, e.what)
    })
}

/// Looks the text over.
pub fn scan(text: &[u8], limits: &Limits) -> Result<(), Excess> {
    let mut entries: Vec<u32> = Vec::with_capacity(limits.depth);
    let mut total = 0_u32;
    let mut at = 0;
    while at < text.len() {
        // Most bytes are digits and letters.
        if !WEIGHTY[text[at] as usize] {
            at += 1;
            continue;
        }
        match text[at] {
            b'"' => {
                let start = at;
                at += 1;
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                if at.min(text.len()) - start > limits.string {
                    let what = format!("a string of more than {} bytes", limits.string);
                    return Err(excess(text, start, what));
                }
            }
            b'[' | b'{' => {
                if entries.len() == limits.depth {
                    let what = format!("nested more than {} levels deep", limits.depth);
                    return Err(excess(text, at, what));
                }
                entries.push(0);
                total += 1;
            }
            b']' | b'}' => {
                entries.pop();
            }
            b',' => {
                total += 1;
                if let Some(count) = entries.last_mut() {
                    *count += 1;
                    if *count >= limits.entries {
                        let what = format!("a list of more than {} entries", limits.entries);
                        return Err(excess(text, at, what));
                    }
                }
            }
            _ => {}
        }
        if total > limits.total {
            return Err(excess(
                text,
                at,
                format!("more than {} values", limits.total),
            ));
        }
        at += 1;
    }
    Ok(())
}

fn excess(text: &[u8], at: usize, what: String) -> Excess {
    let before = &text[..at.min(text.len())];
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
    Excess { line, column, what }
}

/// The value that a parser was reading when it gave up at a line and a column (from 1): `events[3].kind`;
/// empty for the whole text. The column is that of the last byte that the parser took.
pub fn path_at(text: &[u8], line: usize, column: usize) -> String {
    let mut ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let begin = match line.checked_sub(2) {
        Some(before) => ends.nth(before).map_or(text.len(), |(at, _)| at + 1),
        None => 0,
    };
    let end = text.len().min(begin + column.saturating_sub(1));
    let mut levels = levels(&text[..end]);
    // An object that lacks something, or a list that is too short: itself, not its last entry.
    if let Some(b'}' | b']') = text.get(end) {
        levels.pop();
    }
    let mut path = String::new();
    for level in levels {
        match level {
            Level::List(index) => path += &format!("[{index}]"),
            Level::Object(Some(key)) => {
                // Only a key that was cut is no JSON.
                let key: String = serde_json::from_slice(key).unwrap_or_default();
                if !path.is_empty() {
                    path.push('.');
                }
                path += &key;
            }
            Level::Object(None) => {}
        }
    }
    path
}

/// What is open at some place of a text.
enum Level<'t> {
    /// With the number of the entry.
    List(usize),
    /// With the key of the entry, its quotes included, once it was read.
    Object(Option<&'t [u8]>),
}

/// What is open at the end of a text that was cut there.
fn levels(text: &[u8]) -> Vec<Level<'_>> {
    let mut levels = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                let start = at;
                at += 1;
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                if let Some(Level::Object(key @ None)) = levels.last_mut()
                    && at < text.len()
                {
                    *key = Some(&text[start..=at]);
                }
            }
            b'[' => levels.push(Level::List(0)),
            b'{' => levels.push(Level::Object(None)),
            b']' | b'}' => {
                levels.pop();
            }
            b',' => match levels.last_mut() {
                Some(Level::List(index)) => *index += 1,
                Some(Level::Object(key)) => *key = None,
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits {
        depth: 3,
        entries: 4,
        total: 10,
        string: 8,
    };

    #[test]
    fn within_bounds() {
        assert_eq!(scan(br#"{"a": [1,2,3,4], "b": ["[[[["]}"#, &SMALL), Ok(()));
        assert_eq!(scan(br#"{"a": "\"[[[", "b": "\\"}"#, &SMALL), Ok(()));
        assert_eq!(scan(b"", &SMALL), Ok(()));
        assert_eq!(scan(b"\"\\", &SMALL), Ok(()));
        assert_eq!(scan(b"]]]]}}", &SMALL), Ok(()));
    }

    #[test]
    fn a_text_too_short_to_break_a_limit_is_not_looked_at() {
        let path = Path::new("run.json");
        let commas = |count: usize| ",".repeat(count).into_bytes();
        assert!(check(path, &commas(3), &SMALL).is_ok());
        let brackets = |count: usize| "[".repeat(count).into_bytes();
        assert!(check(path, &brackets(4), &SMALL).is_err());
        for limits in [RECORD, FOREIGN] {
            let length = limits.entries as usize;
            assert!(!limits.hold_for_any(length) && limits.hold_for_any(length - 1));
            assert!(check(path, &brackets(length), &limits).is_err());
        }
    }

    #[test]
    fn each_limit_names_its_place() {
        let deep = scan(b"[\n [\n[[", &SMALL).unwrap_err();
        assert_eq!((deep.line, deep.column), (3, 2));
        assert!(deep.what.contains("3 levels"), "{}", deep.what);
        assert!(
            scan(b"[1,2,3,4,5]", &SMALL)
                .unwrap_err()
                .what
                .contains("4 entries")
        );
        assert!(
            scan(b"[[1,2,3],[1,2,3],[1,2,3]]", &SMALL)
                .unwrap_err()
                .what
                .contains("10 values")
        );
        assert!(
            scan(b"[\"123456789\"]", &SMALL)
                .unwrap_err()
                .what
                .contains("8 bytes")
        );
        // Also where the string does not end.
        assert!(
            scan(b"[\"123456789", &SMALL)
                .unwrap_err()
                .what
                .contains("8 bytes")
        );
    }

    /// Where serde_json fails on a text, by the path of the value.
    fn fails_at<T: serde::de::DeserializeOwned>(text: &str) -> String {
        let error = serde_json::from_str::<T>(text).err().expect("it fails");
        path_at(text.as_bytes(), error.line(), error.column())
    }

    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Outer {
        #[serde(rename = "one key")]
        one: Vec<Inner>,
        two: Option<u8>,
    }

    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Inner {
        number: u8,
        word: String,
    }

    #[test]
    fn an_error_has_the_path_of_its_value() {
        let at = |text: &str| fails_at::<Outer>(text);
        let inner = r#"{"number": 1, "word": "]}\"[{"}"#;
        assert_eq!(at(&format!(r#"{{"one key": [{inner}, 1]}}"#)), "one key[1]");
        let wrong = r#"{"word": "a", "number": 256}"#;
        let wrong = format!("{{\"one key\": [\n{inner},\n\n {inner}, {wrong}]}}");
        assert_eq!(at(&wrong), "one key[2].number");
        // What is missing is missing in the object around it.
        assert_eq!(at(r#"{"one key": [{"number": 1}]}"#), "one key[0]");
        assert_eq!(at(r#"{"two": 1}"#), "");
        assert_eq!(at(r#"{"one key": [], "two": {}}"#), "two");
        assert_eq!(at(r#"{"one key": [], "two": "long"}"#), "two");
        assert_eq!(at(r#"{"one key": [], "two": 12"#), "two");
        assert_eq!(at(r#"{"one \u006bey": [[]"#), "one key[0]");
        assert_eq!(at(r#"{"one k"#), "");
        assert_eq!(at("\n\n"), "");
    }

    #[test]
    fn any_place_of_any_text_has_a_path() {
        let text = b"{\"a\\\"\n\": [1, {\"b\": [2,\n3]}, \"\\";
        for cut in 0..=text.len() {
            for line in 0..4 {
                for column in 0..30 {
                    path_at(&text[..cut], line, column);
                }
            }
        }
        path_at(b"]]}},,\"", 1, 100);
    }
}
