//! The names of kinds of runs: as short as they can be while they differ.

use punctual_record::fleet::Setting;

type Part = fn(&Setting) -> &str;

/// A setting in words, with those parts alone in which the settings of a table differ.
pub(super) fn names(settings: &[&Setting]) -> Vec<String> {
    let parts: [Part; 4] = [
        |it| &it.hardware,
        |it| &it.bios,
        |it| &it.load,
        |it| &it.source,
    ];
    let differ = |part: &Part| {
        let mut all = settings.iter().map(|it| part(it));
        let first = all.next();
        all.any(|it| Some(it) != first)
    };
    let shown: Vec<bool> = parts.iter().map(differ).collect();
    let name = |setting: &&Setting| {
        let words: Vec<&str> = parts
            .iter()
            .zip(&shown)
            .filter(|(_, is_shown)| **is_shown)
            .map(|(part, _)| part(setting))
            .map(|word| if word.is_empty() { "unknown" } else { word })
            .collect();
        words.join(", ")
    };
    settings.iter().map(name).collect()
}

/// What the settings of a table have in common, in words; empty if they have nothing.
pub(super) fn common(settings: &[&Setting]) -> String {
    let Some(first) = settings.first() else {
        return String::new();
    };
    let parts: [(&str, Part); 4] = [
        ("on", |it| &it.hardware),
        ("BIOS", |it| &it.bios),
        ("load", |it| &it.load),
        ("woken up by", |it| &it.source),
    ];
    let same = parts.iter().filter(|(_, part)| {
        let is_same = settings.iter().all(|it| part(it) == part(first));
        is_same && !part(first).is_empty()
    });
    let words: Vec<String> = same
        .map(|(name, part)| format!("{name} {}", part(first)))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(hardware: &str, bios: &str, load: &str) -> Setting {
        Setting {
            hardware: hardware.to_owned(),
            bios: bios.to_owned(),
            load: load.to_owned(),
            source: "timer".to_owned(),
        }
    }

    #[test]
    fn a_name_has_what_differs_and_the_rest_is_said_once() {
        let all = [
            setting("X300", "1.6", "none"),
            setting("X300", "", "standard"),
        ];
        let all: Vec<&Setting> = all.iter().collect();
        assert_eq!(names(&all), ["1.6, none", "unknown, standard"]);
        assert_eq!(common(&all), "on X300, woken up by timer");
        assert_eq!(names(&all[..1]), [""]);
        assert_eq!(common(&[]), "");
    }
}
