//! The name that was meant, where one is misspelt.

/// A shorter word is like too many others.
const SHORTEST: usize = 3;

/// The one of `names` that `word` is a slip of, or the beginning of; none where two come
/// equally near.
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

/// How far apart they are, if one may stand for the other: one slip in three letters, and at
/// most two.
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
    fn a_slip_finds_its_name_and_nothing_else_does() {
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
    fn two_that_are_equally_near_are_neither() {
        assert_eq!(nearest("foob", ["fooa", "fooc"]), None);
        assert_eq!(nearest("mer", ["merge", "merit"]), None);
        assert_eq!(meant("mer", ["merge"]), "did you mean 'merge'? ");
    }
}
