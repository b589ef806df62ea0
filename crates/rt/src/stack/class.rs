//! The size classes of stacks.

use crate::sys::map::page_size;

/// The number of classes.
pub const CLASSES: usize = 7;

/// The sizes in bytes, ascending: the powers of two from 32 KB to 2 MB.
pub const SIZES: [usize; CLASSES] = [
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
];

/// One of the size classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

impl Class {
    /// Every class, ascending.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES as u8).map(Self)
    }

    /// The smallest class with at least `size` bytes; `None` above 2 MB.
    ///
    /// For a `size` of 0 it returns the smallest class. A real-time thread may call it: it is
    /// arithmetic.
    pub fn fitting(size: usize) -> Option<Self> {
        let wanted = size.max(page_size());
        SIZES
            .iter()
            .position(|&class| class >= wanted)
            .map(|index| Self(index as u8))
    }

    /// The class of exactly `size` bytes, if `size` is one of [`SIZES`].
    ///
    /// A real-time thread may call it: it is arithmetic.
    #[inline]
    pub fn exact(size: usize) -> Option<Self> {
        let index = size
            .trailing_zeros()
            .wrapping_sub(SIZES[0].trailing_zeros());
        if size.is_power_of_two() && (index as usize) < CLASSES {
            Some(Self(index as u8))
        } else {
            None
        }
    }

    /// The class at an index of [`SIZES`]; any index past the end means the last class.
    #[inline]
    pub(crate) fn at(index: usize) -> Self {
        Self(index.min(CLASSES - 1) as u8)
    }

    /// The index of this class in [`SIZES`].
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The bytes of a stack of this class, without its guard pages.
    #[inline]
    pub fn size(self) -> usize {
        SIZES[0] << self.0
    }

    /// The bytes without access below a stack of this class, and above it: one page each,
    /// whatever the class. Real-time safe.
    #[inline]
    pub fn guard_size(self) -> usize {
        page_size()
    }
}

/// The size in bytes of the smallest class that holds `size` bytes; `None` above 2 MB.
///
/// A real-time thread may call it: it is arithmetic.
pub fn class_of(size: usize) -> Option<usize> {
    Class::fitting(size).map(Class::size)
}

/// Every size in bytes that a stack can have, ascending.
///
/// A real-time thread may call it: it is a constant.
pub fn sizes() -> &'static [usize] {
    &SIZES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_powers_of_two_from_32_kb_to_2_mb() {
        let found: Vec<usize> = Class::all().map(Class::size).collect();
        assert_eq!(found, SIZES);
        for (index, class) in Class::all().enumerate() {
            assert_eq!(class.index(), index);
            assert_eq!(Class::exact(class.size()), Some(class));
            assert_eq!(Class::exact(class.size() + 1), None);
            assert_eq!(Class::exact(class.size() - 1), None);
        }
    }

    #[test]
    fn a_size_is_rounded_up_to_the_next_class() {
        assert_eq!(class_of(0), Some(32 << 10));
        assert_eq!(class_of(1), Some(32 << 10));
        assert_eq!(class_of((32 << 10) + 1), Some(64 << 10));
        assert_eq!(class_of(2 << 20), Some(2 << 20));
        assert_eq!(class_of((2 << 20) + 1), None);
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn exact_accepts_only_the_sizes_of_classes() {
        for size in [0, 1, 4096, 16 << 10, 48 << 10, 4 << 20, 1 << 63, usize::MAX] {
            assert_eq!(Class::exact(size), None, "{size}");
        }
    }
}
