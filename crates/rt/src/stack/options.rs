//! The options in `PUNCTUAL_STACK_DEBUG`.

#![expect(unsafe_code, reason = "getenv, before anything may allocate")]

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most frames of a call stack that are kept.
pub(super) const MAX_FRAMES: usize = 64;

/// The debug options of the allocator.
///
/// The default is none; every wrong free is refused in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugOptions {
    /// Frames kept of each allocation and each free, 0 to 64. `audit` without a number means 15.
    pub audit: u8,
    /// Freed stacks are filled with a pattern that is checked before they are used again.
    pub guards: bool,
    /// Freed stacks can't be accessed at all.
    pub noaccess: bool,
    /// Stacks that are still in use when the process exits are reported.
    pub leaks: bool,
}

const GUARDS: u32 = 1 << 8;
const NOACCESS: u32 = 1 << 9;
const LEAKS: u32 = 1 << 10;

static IN_FORCE: AtomicU32 = AtomicU32::new(0);

impl DebugOptions {
    /// Parses options separated by commas: `audit=64,guards,noaccess,leaks`; `guard` means
    /// `guards`.
    ///
    /// # Errors
    /// The first option that is unknown, or whose number is not in the range 0 to 64.
    pub fn parse(words: &str) -> Result<Self, &str> {
        let mut options = Self::default();
        for word in words
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            match word.split_once('=') {
                None if word == "audit" => options.audit = 15,
                None if matches!(word, "guards" | "guard") => options.guards = true,
                None if word == "noaccess" => options.noaccess = true,
                None if word == "leaks" => options.leaks = true,
                Some(("audit", frames)) => match frames.parse::<u8>() {
                    Ok(frames) if usize::from(frames) <= MAX_FRAMES => options.audit = frames,
                    _ => return Err(word),
                },
                _ => return Err(word),
            }
        }
        Ok(options)
    }

    /// The options that the environment specified when the allocator was set up.
    pub fn in_force() -> Self {
        Self::of_bits(IN_FORCE.load(Ordering::Relaxed))
    }

    fn of_bits(bits: u32) -> Self {
        Self {
            audit: (bits & 0xff) as u8,
            guards: bits & GUARDS != 0,
            noaccess: bits & NOACCESS != 0,
            leaks: bits & LEAKS != 0,
        }
    }

    /// Whether any option is set.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    fn bits(self) -> u32 {
        u32::from(self.audit)
            | if self.guards { GUARDS } else { 0 }
            | if self.noaccess { NOACCESS } else { 0 }
            | if self.leaks { LEAKS } else { 0 }
    }
}

/// Applies the options of the environment. Called once, while no other thread is in this
/// function.
///
/// In a program with more privileges than its caller (`AT_SECURE`) the caller controls the
/// environment, so it is ignored. After an unknown option, which is reported, none is applied:
/// applying only some would be mistaken for applying all.
pub(super) fn set_up() {
    // SAFETY: getauxval reads a value that the kernel left for the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    // SAFETY: the name is a C string. As for every getenv, no other thread may change the
    // environment meanwhile.
    let value = unsafe { libc::getenv(c"PUNCTUAL_STACK_DEBUG".as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: getenv returned a C string, which is valid until the environment changes.
    let words = unsafe { CStr::from_ptr(value) }.to_str().unwrap_or("?");
    match DebugOptions::parse(words) {
        Ok(options) => IN_FORCE.store(options.bits(), Ordering::Relaxed),
        Err(word) => {
            let _turn = super::report::Turn::take();
            super::report::line(libc::STDERR_FILENO, |out| {
                out.text("punctual: PUNCTUAL_STACK_DEBUG is ignored: ");
                out.text(word);
                out.text(" is not one of audit, audit=0..64, guards, noaccess, leaks");
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_parsed() {
        let all = DebugOptions {
            audit: 64,
            guards: true,
            noaccess: true,
            leaks: true,
        };
        assert_eq!(
            DebugOptions::parse("audit=64,guards,noaccess,leaks"),
            Ok(all)
        );
        assert_eq!(DebugOptions::parse(""), Ok(DebugOptions::default()));
        assert_eq!(
            DebugOptions::parse(" audit , ").map(|options| options.audit),
            Ok(15)
        );
        assert!(!DebugOptions::parse("audit=0").unwrap().any());
        assert_eq!(DebugOptions::parse("guard"), DebugOptions::parse("guards"));
    }

    #[test]
    fn an_unknown_option_is_returned_as_the_error() {
        for words in [
            "gaurds",
            "audit=65",
            "audit=-1",
            "audit=x",
            "guards=1",
            "leaks,nope",
        ] {
            let last = words.rsplit(',').next().unwrap();
            assert_eq!(DebugOptions::parse(words), Err(last));
        }
    }

    #[test]
    fn options_survive_the_conversion_to_bits_and_back() {
        let options = DebugOptions {
            audit: 64,
            guards: false,
            noaccess: true,
            leaks: true,
        };
        assert_eq!(DebugOptions::of_bits(options.bits()), options);
    }
}
