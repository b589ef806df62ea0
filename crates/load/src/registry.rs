//! The list of all generators. A new one is a file below `generators/` and a line in [`ALL`].

use crate::generator::Generator;
use crate::generators;
use crate::parameter::{Parameter, short};

/// The generators, in the order of the list.
pub const ALL: &[&Generator] = &[
    &generators::hackbench::GENERATOR,
    &generators::mmap::GENERATOR,
    &generators::fork::GENERATOR,
    &generators::files::GENERATOR,
    &generators::net::GENERATOR,
    &generators::cpu::GENERATOR,
    &generators::timers::GENERATOR,
    &generators::poll::GENERATOR,
    &generators::memory::EXIT,
    &generators::memory::MUNMAP,
    &generators::memory::MPROTECT,
    &generators::memory::HUGEPAGES,
    &generators::memory::VMREAD,
    &generators::kill::GENERATOR,
    &generators::truncate::GENERATOR,
    &generators::proc::GENERATOR,
];

/// The generator of this name.
pub fn find(name: &str) -> Option<&'static Generator> {
    ALL.iter().copied().find(|generator| generator.name == name)
}

/// All generators and their parameters, as a list in Markdown.
pub fn markdown() -> String {
    let mut text = String::new();
    for generator in ALL {
        let Generator {
            name,
            unit,
            description,
            ..
        } = generator;
        let counted = [&[*unit][..], generator.also].concat().join(", ");
        text += &format!("- **`{name}`**: {description}. Counts {counted}.\n");
        for parameter in generator.parameters {
            let Parameter {
                key,
                description,
                default,
                ..
            } = parameter;
            let (least, most) = (short(parameter.least), short(parameter.most));
            text += &format!("  - `{key}` ({default}; {least} to {most}): {description}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Values;

    #[test]
    fn every_default_is_in_range_and_every_key_once() {
        for generator in ALL {
            let defaults = generator.resolve(&Values::new(), 2, 1 << 30, 1);
            assert_eq!(
                defaults.len(),
                generator.parameters.len(),
                "{}",
                generator.name
            );
            for parameter in generator.parameters {
                let value = parameter.default.on(2, 1 << 30);
                let range = parameter.least..=parameter.most;
                assert!(
                    range.contains(&value),
                    "{} {}",
                    generator.name,
                    parameter.key
                );
                // These are the supervisor's own.
                let taken = ["class", "cpus", "scratch", "run"];
                assert!(!taken.contains(&parameter.key), "{}", parameter.key);
            }
            assert!((generator.memory)(&defaults) > 0, "{}", generator.name);
        }
    }

    /// `PUNCTUAL_BLESS=1` writes it.
    #[test]
    fn the_list_in_load_md_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/load.md");
        let page = std::fs::read_to_string(path).expect("docs/load.md");
        let begin = page.find("\n- **`").expect("the first generator") + 1;
        let end = begin
            + page[begin..]
                .find("\n\n")
                .expect("a paragraph after the list")
            + 1;
        let list = markdown();
        if page[begin..end] == list {
            return;
        }
        if std::env::var_os("PUNCTUAL_BLESS").is_some() {
            let page = [&page[..begin], &list, &page[end..]].concat();
            std::fs::write(path, page).expect("docs/load.md");
            return;
        }
        panic!(
            "the list in docs/load.md differs: `PUNCTUAL_BLESS=1 cargo test -p punctual-load` \
             writes it\n\n{list}"
        );
    }

    /// What each file below `generators/` names of this crate, one line for each.
    fn named_by_generators() -> Vec<(String, String)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/generators");
        let mut named = Vec::new();
        for entry in std::fs::read_dir(folder).expect("the generators") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a source");
            for line in text.lines().filter(|line| !line.starts_with("//")) {
                let path = path.display().to_string();
                let up = line.contains("super::").then(|| "super".to_owned());
                let down = line.split("crate::").skip(1).map(|after| {
                    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
                    after[..end.unwrap_or(after.len())].to_owned()
                });
                named.extend(up.into_iter().chain(down).map(|name| (path.clone(), name)));
            }
        }
        named
    }

    #[test]
    fn generators_name_nothing_above_them() {
        const BELOW: &[&str] = &[
            "area",
            "board",
            "context",
            "error",
            "generator",
            "job",
            "limits",
            "parameter",
            "sys",
        ];
        let named = named_by_generators();
        assert!(named.len() > ALL.len(), "imports are found");
        for (path, name) in named {
            assert!(BELOW.contains(&name.as_str()), "{path} names crate::{name}");
        }
    }
}
