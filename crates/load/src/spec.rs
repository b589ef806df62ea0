//! The value of `--load`, as plain data.

use crate::error::SpecError;
use crate::item::LoadItem;
use crate::parameter::Values;
use crate::{kernel_paths, registry, standard};

/// A requested load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadSpec {
    /// No load at all.
    None,
    /// The standard load of this version of punctual: see [`standard`].
    Standard,
    /// Generators by name, each with the parameters that were set.
    List(Vec<LoadItem>),
    /// A user's own command line, run by `/bin/sh -c`.
    Command(String),
}

impl LoadSpec {
    /// Parses `standard`, `none`, a list like `hackbench,mmap:bytes=16M`, in which `kernel-paths`
    /// stands for all of [`kernel_paths::KERNEL_PATHS`], or, when the text holds a space or a slash, a
    /// command line.
    ///
    /// # Errors
    /// One line that lists the known loads.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        match text {
            "" => return Err(unknown("")),
            "none" => return Ok(LoadSpec::None),
            "standard" => return Ok(LoadSpec::Standard),
            _ => {}
        }
        let elements: Vec<&str> = text.split(',').map(str::trim).collect();
        let named = |element: &&str| registry::find(element.split(':').next().unwrap_or(""));
        let is_word = |element: &&str| !element.contains([' ', '\t', '\n', '/']);
        // `hackbench, nte` is a misspelt list, not a command; `hackbench -g 10` is a command.
        let is_list = elements.iter().all(is_word)
            && (elements.iter().any(|element| named(element).is_some())
                || !text.contains([' ', '\t', '\n', '/']));
        if !is_list {
            return Ok(LoadSpec::Command(text.to_owned()));
        }
        let items: Result<Vec<_>, _> = elements.into_iter().map(parse_element).collect();
        Ok(LoadSpec::List(items?.concat()))
    }

    /// The name of the load in a report: `standard load v1`, `no load`,
    /// `hackbench+net`, "command `make -j8`".
    pub fn label(&self) -> String {
        match self {
            LoadSpec::None => "no load".into(),
            LoadSpec::Standard => format!("standard load v{}", standard::VERSION),
            LoadSpec::List(items) if *items == kernel_paths::items() => {
                kernel_paths::KERNEL_PATHS_NAME.into()
            }
            LoadSpec::List(items) => {
                let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
                names.join("+")
            }
            LoadSpec::Command(command) => format!("command `{command}`"),
        }
    }

    /// The generators to run; none for a command and for no load.
    pub fn items(&self) -> Vec<LoadItem> {
        match self {
            LoadSpec::None | LoadSpec::Command(_) => Vec::new(),
            LoadSpec::Standard => standard::items(),
            LoadSpec::List(items) => items.clone(),
        }
    }
}

fn parse_element(text: &str) -> Result<Vec<LoadItem>, SpecError> {
    if text == kernel_paths::KERNEL_PATHS_NAME {
        return Ok(kernel_paths::items());
    }
    parse_item(text).map(|item| vec![item])
}

fn parse_item(text: &str) -> Result<LoadItem, SpecError> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or("");
    let generator = registry::find(name).ok_or_else(|| unknown(name))?;
    let mut set = Values::new();
    for part in parts {
        // A key without a value means 1: `hackbench:pipe`.
        let (key, value) = part.split_once('=').unwrap_or((part, "1"));
        let value = generator.check(key, value)?;
        if set.insert(key.to_owned(), value).is_some() {
            return Err(SpecError::Twice {
                load: generator.name,
                key: key.to_owned(),
            });
        }
    }
    let name = name.to_owned();
    Ok(LoadItem { name, set })
}

fn unknown(name: &str) -> SpecError {
    SpecError::UnknownLoad {
        name: name.to_owned(),
        set: kernel_paths::KERNEL_PATHS_NAME,
        known: registry::ALL.iter().map(|g| g.name).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<(String, Vec<(String, u64)>)> {
        match LoadSpec::parse(text) {
            Ok(LoadSpec::List(items)) => items
                .into_iter()
                .map(|item| (item.name, item.set.into_iter().collect()))
                .collect(),
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn words_with_a_meaning_of_their_own() {
        assert_eq!(LoadSpec::parse("none"), Ok(LoadSpec::None));
        assert_eq!(LoadSpec::parse(" standard "), Ok(LoadSpec::Standard));
    }

    #[test]
    fn a_list_with_parameters() {
        let expected = vec![
            (
                "hackbench".into(),
                vec![("groups".into(), 3), ("pipe".into(), 1)],
            ),
            ("mmap".into(), vec![("bytes".into(), 16 << 20)]),
        ];
        assert_eq!(list("hackbench:pipe:groups=3,mmap:bytes=16M"), expected);
        assert_eq!(list("hackbench, net").len(), 2);
    }

    #[test]
    fn a_set_is_the_loads_in_it() {
        let names =
            |text| -> Vec<String> { list(text).into_iter().map(|(name, _)| name).collect() };
        assert_eq!(names("kernel-paths"), kernel_paths::KERNEL_PATHS);
        let with = [&["net"], kernel_paths::KERNEL_PATHS].concat();
        assert_eq!(names("net,kernel-paths"), with);
        assert!(LoadSpec::parse("kernel-paths:bytes=1M").is_err());
    }

    #[test]
    fn a_space_or_a_slash_makes_a_command() {
        for text in ["make -j8", "/usr/bin/stress", "hackbench -g 10", "a, b c"] {
            assert_eq!(LoadSpec::parse(text), Ok(LoadSpec::Command(text.into())));
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        for text in [
            "",
            "nte",
            "hackbench,nte",
            "hackbench, nte",
            "cpu,",
            "standard,cpu",
        ] {
            let error = LoadSpec::parse(text).expect_err(text).to_string();
            assert!(error.contains("hackbench, mmap, fork"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_bad_parameter_is_named_with_its_range() {
        for value in [
            "0",
            "-1",
            "",
            "x",
            "+5",
            "1.5",
            "99999999999999999999",
            "9999999999G",
        ] {
            let error = LoadSpec::parse(&format!("hackbench:groups={value}")).expect_err(value);
            let error = error.to_string();
            assert!(
                error.contains("groups") && error.contains("from 1 to"),
                "{error}"
            );
        }
        let error = LoadSpec::parse("cpu:sped=5").expect_err("unknown key");
        let error = error.to_string();
        assert!(
            error.contains("'sped'") && error.contains("workers"),
            "{error}"
        );
        let error = LoadSpec::parse("cpu:workers=1:workers=2").expect_err("twice");
        let error = error.to_string();
        assert!(error.contains("twice"), "{error}");
    }

    #[test]
    fn labels() {
        let label = |text| LoadSpec::parse(text).map(|spec| spec.label());
        assert_eq!(label("none"), Ok("no load".into()));
        assert_eq!(label("standard"), Ok("standard load v1".into()));
        assert_eq!(label("hackbench,net:pairs=2"), Ok("hackbench+net".into()));
        assert_eq!(label("kernel-paths"), Ok("kernel-paths".into()));
        assert_eq!(label("poll,exit"), Ok("poll+exit".into()));
        assert_eq!(label("make -j8"), Ok("command `make -j8`".into()));
    }
}
