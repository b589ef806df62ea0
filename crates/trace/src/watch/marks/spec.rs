//! The syntax of a mark: `[NAME=]PLACE`, `[NAME=]PLACE..PLACE` or `[NAME=][FILE:]FUNCTION()`.

use std::error::Error;
use std::fmt;

/// Marks of one watch, at most.
pub const MOST: usize = 16;
/// Bytes of a mark's text, at most.
pub(super) const LONGEST: usize = 512;

/// The expected syntax, for a message.
pub const ACCEPTED: &str = "[NAME=]PLACE, PLACE..PLACE or FUNCTION(), where PLACE is FUNCTION, \
                            FILE:FUNCTION, [FILE:]+OFFSET or usdt:PROVIDER:PROBE";

/// A requested mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// The marked place as the user wrote it.
    pub text: String,
    /// What is marked.
    pub shape: MarkShape,
}

/// What is marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkShape {
    /// A single place: from one pass to the next.
    Point(MarkPlace),
    /// From one place to another.
    Pair(MarkPlace, MarkPlace),
    /// From a function's entry to its return.
    Call(MarkPlace),
}

/// A place in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkPlace {
    /// The file, as `libm.so.6` or by its path; absent for the program's own file.
    pub file: Option<String>,
    /// The place in it.
    pub kind: PlaceKind,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceKind {
    /// A function's first instruction.
    Function(String),
    /// Offset in the file.
    Offset(u64),
    /// A probe that the program's author put there (USDT), in any of its files.
    Probe {
        /// The provider.
        provider: String,
        /// The probe's name.
        name: String,
    },
}

/// Why a text is no mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// It is none of the forms.
    Form,
    /// A return of what is no function.
    NoReturn,
    /// From a place to the same.
    SamePlace,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => write!(f, "expected {ACCEPTED}"),
            Self::NoReturn => write!(f, "only a function returns: expected {ACCEPTED}"),
            Self::SamePlace => f.write_str(
                "from a place to itself: a single PLACE is measured from one time to the next",
            ),
        }
    }
}

impl Error for SpecError {}

/// Reads a mark.
///
/// # Errors
/// [`SpecError`], which says what is accepted.
pub fn parse(text: &str) -> Result<Spec, SpecError> {
    let refused = || SpecError::Form;
    if text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(refused());
    }
    let (name, marked) = match text.split_once('=') {
        Some((name, marked)) => (name.trim(), marked.trim()),
        None => (text.trim(), text.trim()),
    };
    if name.is_empty() || marked.is_empty() {
        return Err(refused());
    }
    let shape = if let Some(function) = marked.strip_suffix("()") {
        match place(function).ok_or_else(refused)? {
            place if matches!(place.kind, PlaceKind::Function(_)) => MarkShape::Call(place),
            _ => return Err(SpecError::NoReturn),
        }
    } else {
        match marked.split_once("..") {
            None => MarkShape::Point(place(marked).ok_or_else(refused)?),
            Some((from, to)) => {
                let from = place(from.trim()).ok_or_else(refused)?;
                let to = place(to.trim()).ok_or_else(refused)?;
                if from == to {
                    return Err(SpecError::SamePlace);
                }
                MarkShape::Pair(from, to)
            }
        }
    };
    Ok(Spec {
        name: name.to_owned(),
        text: marked.to_owned(),
        shape,
    })
}

fn place(text: &str) -> Option<MarkPlace> {
    if let Some(probe) = text.strip_prefix("usdt:") {
        let (provider, name) = probe.split_once(':')?;
        let kind = PlaceKind::Probe {
            provider: word(provider)?,
            name: word(name)?,
        };
        return Some(MarkPlace { file: None, kind });
    }
    let (file, what) = match text.rsplit_once(':') {
        Some((file, what)) => (Some(file), what),
        None => (None, text),
    };
    let file = match file {
        None => None,
        // A path with several parts identifies a file only if it is absolute.
        Some(file) if file.is_empty() || file.contains('/') && !file.starts_with('/') => {
            return None;
        }
        Some(file) => Some(file.to_owned()),
    };
    let kind = match what.strip_prefix('+') {
        Some(offset) => PlaceKind::Offset(number(offset)?),
        None => PlaceKind::Function(word(what)?),
    };
    Some(MarkPlace { file, kind })
}

/// A name as compilers and USDT probes use it.
fn word(text: &str) -> Option<String> {
    let plain = |letter: char| !letter.is_whitespace() && !":=/()+".contains(letter);
    (!text.is_empty() && text.chars().all(plain)).then(|| text.to_owned())
}

/// Only digits: `4660` or `0x1234`.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // The standard parser would accept a sign.
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all.then(|| u64::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(file: Option<&str>, name: &str) -> MarkPlace {
        MarkPlace {
            file: file.map(str::to_owned),
            kind: PlaceKind::Function(name.to_owned()),
        }
    }

    #[test]
    fn each_form_of_a_mark_is_parsed() {
        let shape = |text| parse(text).expect(text).shape;
        assert_eq!(shape("tick"), MarkShape::Point(function(None, "tick")));
        assert_eq!(
            shape("a=libm.so.6:sin"),
            MarkShape::Point(function(Some("libm.so.6"), "sin"))
        );
        assert_eq!(
            shape("/opt/my app/bin/x:work()"),
            MarkShape::Call(function(Some("/opt/my app/bin/x"), "work"))
        );
        let offset = |file: Option<&str>, at| MarkPlace {
            file: file.map(str::to_owned),
            kind: PlaceKind::Offset(at),
        };
        assert_eq!(
            shape("x=+0x1a..lib.so:+42"),
            MarkShape::Pair(offset(None, 26), offset(Some("lib.so"), 42))
        );
        let probe = |name: &str| MarkPlace {
            file: None,
            kind: PlaceKind::Probe {
                provider: "control".to_owned(),
                name: name.to_owned(),
            },
        };
        assert_eq!(
            shape("cycle = usdt:control:begin .. usdt:control:end"),
            MarkShape::Pair(probe("begin"), probe("end"))
        );
        let spec = parse("cycle=_ZN4core4tick17h0123E()").expect("a mark");
        assert_eq!(
            (&*spec.name, &*spec.text),
            ("cycle", "_ZN4core4tick17h0123E()")
        );
        assert_eq!(parse("tick").expect("a mark").name, "tick");
        assert_eq!(
            shape("work.part.0"),
            MarkShape::Point(function(None, "work.part.0"))
        );
    }

    #[test]
    fn anything_else_is_refused_with_the_expected_form() {
        for text in [
            "",
            "=",
            "a=",
            "=a",
            "..",
            "a..",
            "..b",
            "a=b=c",
            "()",
            "+",
            "+0x",
            "+-1",
            "+99999999999999999999",
            "usdt:",
            "usdt:a",
            "usdt:a:",
            "usdt:a:b:c",
            "usdt:a:b()",
            "+12()",
            ":f",
            "lib/x.so:f",
            "f:",
            "a..b()..c",
            "f g",
            "a\nb",
            "a..a",
        ] {
            let why = parse(text).expect_err(text).to_string();
            assert_eq!(why.lines().count(), 1, "{why}");
        }
        assert!(parse(&"a".repeat(LONGEST)).is_ok() && parse(&"a".repeat(LONGEST + 1)).is_err());
    }
}
