//! Sentences where only data belongs: what the machine's findings hold is rendered by the report
//! alone, so that no wording stands in a record.

use crate::files::Tracked;

/// Sources whose texts end up in records.
const PLACES: &[&str] = &["crates/machine/src/findings/", "crates/machine/src/look.rs"];

/// Texts with several words that are not ours to choose.
const QUOTED: &[&str] = &[
    // Lines of /proc/PID/limits.
    "Max realtime priority",
    "Max locked memory",
    "Max realtime timeout",
    // A line of /proc/PID/status.
    "CapEff: {:016x}",
    // An answer that snapshots keep.
    "no such file",
];

/// Sentences in sources that hold only data, a line each.
pub fn faults(files: &[Tracked]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files {
        if !PLACES.iter().any(|place| file.path.starts_with(place)) {
            continue;
        }
        // Tests stand at the end.
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (line, text) in texts(code) {
            if is_prose(&text) && !QUOTED.contains(&text.as_str()) {
                let path = &file.path;
                faults.push(format!(
                    "{path}:{line}: a sentence in data, which the report renders: {text:?}"
                ));
            }
        }
    }
    faults
}

/// The string literals of Rust code, with their lines.
fn texts(code: &str) -> Vec<(usize, String)> {
    let mut texts = Vec::new();
    let mut line = 1;
    let mut rest = code.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => line += 1,
            '/' if rest.peek() == Some(&'/') => while rest.next_if(|c| *c != '\n').is_some() {},
            // A quotation mark as a character, or a lifetime.
            '\'' => {
                if rest.next() == Some('\\') {
                    rest.next();
                }
                rest.next_if_eq(&'\'');
            }
            '"' => {
                let begins = line;
                let mut text = String::new();
                while let Some(c) = rest.next() {
                    match c {
                        '"' => break,
                        '\\' => match rest.next() {
                            // The text goes on at the next letter.
                            Some('\n') => {
                                line += 1;
                                while rest.next_if(|c| *c == ' ').is_some() {}
                            }
                            Some(escaped) => text.extend(['\\', escaped]),
                            None => {}
                        },
                        '\n' => {
                            line += 1;
                            text.push('\n');
                        }
                        c => text.push(c),
                    }
                }
                texts.push((begins, text));
            }
            _ => {}
        }
    }
    texts
}

/// Whether two words of a text stand beside each other, or one beside a place for a value. Names of
/// files, options and parameters have no blanks.
fn is_prose(text: &str) -> bool {
    let is_word = |word: &&str| {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
        word.len() > 1
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || byte == b'\'')
    };
    let is_value = |word: &&str| word.contains('{');
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let [one, other] = pair else { return false };
        is_word(one) && (is_word(other) || is_value(other)) || is_value(one) && is_word(other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<String> {
        faults(&[Tracked::made(path, text)])
    }

    #[test]
    fn a_sentence_in_a_finding_is_a_fault() {
        let path = "crates/machine/src/findings/power.rs";
        let said = |text: &str| {
            vec![format!(
                "{path}:2: a sentence in data, which the report renders: {text:?}"
            )]
        };
        for text in [
            "a second NUMA node",
            "write access",
            "CPU {cpu}",
            "{read} devices, all on",
            "{name} ({came} times in {} ms)",
            "can't be read: modprobe msr",
        ] {
            let code = format!("fn f() {{\n    look.saw(path, \"{text}\");\n}}\n");
            assert_eq!(faults_of(path, &code), said(text), "{text}");
            assert_eq!(
                faults_of("crates/report/src/findings/item.rs", &code),
                [""; 0]
            );
        }
        let split = "fn f() {\n    g(\"what is \\\n       split\");\n}\n";
        assert_eq!(faults_of(path, split), said("what is split"));
    }

    #[test]
    fn names_comments_and_tests_are_none() {
        let path = "crates/machine/src/findings/power.rs";
        for fine in [
            "f(\"/sys/devices/system/cpu/cpu{}\", \"isolcpus=managed_irq,domain,{}\");",
            "f(\"CapEff: {:016x}\", \"Cpus_allowed_list: {list}\", \"hres_active: 1\");",
            "// It says \"nothing at all\".",
            "f('\"', '\\'', \"a\"); // two words",
            "f(\"Max locked memory\");",
            "fn f<'a>(text: &'a str) {}",
            "#[cfg(test)]\nmod tests { f(\"two words\"); }",
        ] {
            assert_eq!(faults_of(path, fine), [""; 0], "{fine}");
        }
    }
}
