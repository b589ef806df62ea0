//! The name that a misspelt word probably means.

/// Letters of a word; a shorter one resembles too many names.
const SHORTEST: usize = 3;

/// The name that `word` misspells or begins; none if two names are equally near.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let word = word.to_lowercase();
    if word.chars().count() < SHORTEST {
        return None;
    }
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| Some((distance(&word, &name.to_lowercase())?, name)))
        .collect();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [] => None,
        [(first, _), (second, _), ..] if first == second => None,
        [(_, name), ..] => Some(name),
    }
}

/// The number of errors in `word`, if it may mean `name`: one error per three letters, at most
/// two.
fn distance(word: &str, name: &str) -> Option<usize> {
    let far = strsim::osa_distance(word, name);
    let allowed = (word.chars().count() / SHORTEST).min(2);
    let begins = name.starts_with(word);
    (far <= allowed || begins).then_some(if begins { 0 } else { far })
}

/// "did you mean 'NAME'? ", or nothing.
pub fn meant<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    nearest(word, names).map_or_else(String::new, |name| format!("did you mean '{name}'? "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_name_and_other_words_find_none() {
        let names = ["qualify", "measure", "merge", "report", "run", "lab"];
        for (word, name) in [
            ("qualifi", Some("qualify")),
            ("qualiy", Some("qualify")),
            ("QUALIFY", Some("qualify")),
            ("emasure", Some("measure")),
            ("rpeort", Some("report")),
            ("quali", Some("qualify")),
            ("rnu", Some("run")),
            ("re", None),
            ("", None),
            ("xyzzy", None),
            ("é", None),
        ] {
            assert_eq!(nearest(word, names), name, "{word}");
        }
    }

    #[test]
    fn no_name_is_suggested_if_two_are_equally_near() {
        assert_eq!(nearest("foob", ["fooa", "fooc"]), None);
        assert_eq!(nearest("mer", ["merge", "merit"]), None);
        assert_eq!(meant("mer", ["merge"]), "did you mean 'merge'? ");
    }
}
