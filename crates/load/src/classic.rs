//! The command line and the output of the hackbench of rt-tests.

use crate::error::SpecError;
use crate::generators::hackbench::GENERATOR;
use crate::item::LoadItem;
use crate::parameter::Values;
use crate::report::LoadReport;

/// Parses the classic arguments: `-g groups -l loops -s datasize
/// -f fds -p|--pipe -T|--threads -P|--process`, with the classic defaults.
/// Finite, unlike `--load hackbench`.
pub fn classic_item(arguments: &[String]) -> Result<LoadItem, SpecError> {
    let mut set: Values = [("groups", 10), ("loops", 100), ("fds", 20)]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let (letter, attached) = split(argument);
        let key = match letter {
            "-g" | "--groups" => "groups",
            "-l" | "--loops" => "loops",
            "-s" | "--datasize" => "datasize",
            "-f" | "--fds" => "fds",
            "-p" | "--pipe" => "pipe",
            "-T" | "--threads" | "-P" | "--process" => "threads",
            _ => {
                return Err(SpecError::ClassicArgument(argument.clone()));
            }
        };
        let value = match letter {
            "-P" | "--process" => "0",
            _ if key == "pipe" || key == "threads" => "1",
            _ => {
                let value = attached.or_else(|| arguments.next().map(String::as_str));
                value.ok_or_else(|| SpecError::ClassicNumber(letter.to_owned()))?
            }
        };
        if (letter, value) == ("-l", "0") || (letter, value) == ("--loops", "0") {
            return Err(SpecError::ClassicNothing);
        }
        set.insert(key.to_owned(), GENERATOR.check(key, value)?);
    }
    let name = GENERATOR.name.to_owned();
    Ok(LoadItem { name, set })
}

/// Splits `-g10` and `--groups=10`.
fn split(argument: &str) -> (&str, Option<&str>) {
    match argument.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, Some(value)),
        _ if argument.starts_with("--") || argument.len() <= 2 => (argument, None),
        _ => match argument.split_at_checked(2) {
            Some((letter, value)) => (letter, Some(value)),
            None => (argument, None),
        },
    }
}

/// The one line that hackbench prints: `Time: 1.234`.
pub fn classic_line(report: &LoadReport) -> String {
    format!("Time: {:.3}", report.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classic(line: &str) -> Result<Values, SpecError> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        classic_item(&arguments).map(|item| item.set)
    }

    #[test]
    fn the_classic_letters() {
        let set = classic("-g 3 -l1000 --datasize=512 -f 5 -p -T").expect("all known");
        let expected = [
            ("datasize", 512),
            ("fds", 5),
            ("groups", 3),
            ("loops", 1000),
            ("pipe", 1),
            ("threads", 1),
        ];
        assert_eq!(set, expected.map(|(k, v)| (k.to_owned(), v)).into());
        let defaults = classic("-P").expect("defaults");
        assert_eq!((defaults["groups"], defaults["loops"]), (10, 100));
    }

    #[test]
    fn what_is_refused() {
        for line in [
            "-g 0", "-g", "-g -1", "-l 0", "-s 0", "-x", "10", "-f 1001", "-é",
        ] {
            let error = classic(line).expect_err(line).to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
