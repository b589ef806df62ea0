//! The name that a misspelt word probably means.

use std::cmp::Reverse;

/// Letters of a word; a shorter one resembles too many names.
const SHORTEST: usize = 3;
/// Similar names in one suggestion.
const SUGGESTED: usize = 3;

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

/// "did you mean 'A', 'B' or 'C'? ": the name that `word` misspells, else the names that share
/// most parts with it; or nothing.
pub fn similar<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let suggested = match nearest(word, names.iter().copied()) {
        Some(name) => vec![name],
        None => sharing_parts(word, &names),
    };
    let quoted: Vec<String> = suggested.iter().map(|name| format!("'{name}'")).collect();
    match &quoted[..] {
        [] => String::new(),
        [only] => format!("did you mean {only}? "),
        [others @ .., last] => format!("did you mean {} or {last}? ", others.join(", ")),
    }
}

/// The names with the most parts of `word` (`huge-pages` has two), the nearest of them first.
fn sharing_parts<'n>(word: &str, names: &[&'n str]) -> Vec<&'n str> {
    let word = word.to_lowercase();
    let parts: Vec<&str> = word
        .split(['-', '_', '.', ' '])
        .filter(|part| part.chars().count() >= SHORTEST)
        .collect();
    let shares = |name: &str, part: &str| {
        name.contains(part) || name.split('-').any(|own| distance(part, own).is_some())
    };
    let mut found: Vec<(Reverse<usize>, usize, &str)> = names
        .iter()
        .filter_map(|name| {
            let shared = parts.iter().filter(|part| shares(name, part)).count();
            (shared > 0).then(|| (Reverse(shared), strsim::osa_distance(&word, name), *name))
        })
        .collect();
    found.sort_unstable();
    found.truncate(SUGGESTED);
    found.into_iter().map(|(_, _, name)| name).collect()
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
    #[test]
    fn names_that_share_most_parts_are_suggested_where_none_is_nearest() {
        let names = ["huge-pages", "page-cache", "cpu-idle", "cpu-dma-latency"];
        for (word, suggested) in [
            ("huge-page", "did you mean 'huge-pages'? "),
            ("transparent-hugepages", ""),
            ("pages", "did you mean 'huge-pages' or 'page-cache'? "),
            (
                "idle-cpus",
                "did you mean 'cpu-idle' or 'cpu-dma-latency'? ",
            ),
            ("nonsense", ""),
            ("", ""),
            ("-", ""),
        ] {
            assert_eq!(similar(word, names), suggested, "{word}");
        }
        let many = ["a-cpu", "b-cpu", "c-cpu", "d-cpu"];
        let expected = "did you mean 'a-cpu', 'b-cpu' or 'c-cpu'? ";
        assert_eq!(similar("cpu", many), expected);
    }
}
