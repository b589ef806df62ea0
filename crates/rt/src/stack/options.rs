//! What `PUNCTUAL_STACK_DEBUG` asks for.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most frames of a call stack that are kept.
pub(super) const MAX_FRAMES: usize = 64;

/// How the allocator watches its users.
///
/// The default is none of it; every wrong free is refused all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugOptions {
    /// Frames kept of each allocation and each free, 0 to 64. `audit` alone means 15.
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
    /// Reads words separated by commas: `audit=64,guards,noaccess,leaks`; `guard` is `guards`.
    ///
    /// # Errors
    /// The first word that is not known, or whose number is not one from 0 to 64.
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

    /// What the environment asked for when the allocator was set up.
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

    /// Whether anything is asked for.
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

/// Puts into force what the environment asks for. Called once, while nothing else runs here.
///
/// In a program that runs with more rights than its caller (`AT_SECURE`) the environment is
/// the caller's and is not listened to. A word that isn't known is reported, and then none
/// is in force: half of what was asked for would be mistaken for the whole.
pub(super) fn set_up() {
    // SAFETY: getauxval reads what the kernel left for the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    // SAFETY: the name is a C string. Like every getenv: another thread must not change the
    // environment meanwhile.
    let value = unsafe { libc::getenv(c"PUNCTUAL_STACK_DEBUG".as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: getenv returned a C string that lives as long as the environment is not
    // changed.
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
    fn the_words_are_read() {
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
    fn an_unknown_word_is_named() {
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
    fn bits_and_options_say_the_same() {
        let options = DebugOptions {
            audit: 64,
            guards: false,
            noaccess: true,
            leaks: true,
        };
        assert_eq!(DebugOptions::of_bits(options.bits()), options);
    }
}
