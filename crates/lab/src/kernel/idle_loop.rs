//! The idle loop of an x86 kernel, as one block.
//!
//! An emulator that counts instructions reads and writes its count for each block that it executes, and
//! waits each time for what it has just written: short blocks are the dearest code there is. The loop of
//! `cpu_idle_poll` has two or three of them, with 7 to 10 instructions in all:
//!
//! ```text
//!       mov   (%rbx),%rax               the flags of the current thread
//!       test  $TIF_NEED_RESCHED,%al
//!       je    enter
//!       jmp   out
//! loop: pause
//!       mov   (%rbx),%rax
//!       test  $TIF_NEED_RESCHED,%al
//!       jne   out
//! enter:                                these three with PREEMPT_RT only
//!       mov   (%rbx),%rax
//!       test  $TIF_NEED_RESCHED_LAZY,%eax
//!       jne   out
//! enter:                                without
//!       mov   cpu_idle_force_poll,%ecx
//!       test  %ecx,%ecx
//!       jne   loop
//!       call  tick_check_broadcast_expired
//!       test  %eax,%eax
//!       jne   loop
//! out:
//! ```
//!
//! With `idle=poll`, `cpu_idle_force_poll` is never 0 (kernel/sched/idle.c, `cpu_idle_poll_setup`): the
//! loop ends when the thread gives way, and at no other time. The block that takes its place looks at the
//! same flags once in [`TURN`] instructions, in every kernel.

/// The instructions of a turn, which is as long as a wake-up may wait for the next look at the flags.
pub const TURN: usize = 20;
/// Those of them that look at the flags, and jump back.
const LOOKING: usize = 3;
/// `mov (%rbx),%rax`.
const FLAGS: [u8; 3] = [0x48, 0x8b, 0x03];
/// Where the loop is entered: an instruction must begin there.
const ENTER: usize = 9;

/// The code before a loop, up to the distance of its jump.
const BEFORE: [u8; 8] = [0x48, 0x8b, 0x03, 0xa8, 0x08, 0x74, 0x0b, 0xeb];

/// A loop as it is compiled.
struct Compiled {
    code: &'static [u8],
    /// Operands of four bytes that may be others in each kernel.
    operands: &'static [usize],
    /// The one of them that is the mask of a second flag.
    second_flag: Option<usize>,
}

/// Debian's kernels 6.1: with PREEMPT_RT, and without.
const COMPILED: [Compiled; 2] = [
    Compiled {
        code:
            b"\xf3\x90\x48\x8b\x03\xa8\x08\x75\x1d\x48\x8b\x03\xa9\0\0\0\0\x75\x13\x8b\x0d\0\0\0\0\
            \x85\xc9\x75\xe3\xe8\0\0\0\0\x85\xc0\x75\xda",
        operands: &[13, 21, 30],
        second_flag: Some(13),
    },
    Compiled {
        code: b"\xf3\x90\x48\x8b\x03\xa8\x08\x75\x13\x8b\x05\0\0\0\0\x85\xc0\x75\xed\xe8\0\0\0\0\
            \x85\xc0\x75\xe4",
        operands: &[11, 20],
        second_flag: None,
    },
];

/// What takes the place of the loop that begins with the `pause` at a place of this code; none where the
/// loop is another one.
pub fn merged(code: &[u8], pause: usize) -> Option<Vec<u8>> {
    let (before, rest) = code.split_at_checked(pause)?;
    COMPILED.iter().find_map(|compiled| {
        let length = compiled.code.len();
        let code = rest.get(..length)?;
        // The jump before it leads behind it, where the new loop ends as well.
        let over = u8::try_from(length).ok()?;
        let is_entered = before.strip_suffix(&[over])?.ends_with(&BEFORE);
        (is_entered && compiled.is(code)).then_some(())?;
        one_block(length, &compiled.look(code)?)
    })
}

impl Compiled {
    /// Whether code of this length is this loop.
    fn is(&self, code: &[u8]) -> bool {
        let is_operand = |at: usize| {
            self.operands
                .iter()
                .any(|from| (*from..from + 4).contains(&at))
        };
        let mut both = code.iter().zip(self.code).enumerate();
        both.all(|(at, (code, own))| code == own || is_operand(at))
    }

    /// `test $FLAGS,%al` or `%eax`.
    fn look(&self, code: &[u8]) -> Option<Vec<u8>> {
        let Some(at) = self.second_flag else {
            return Some(vec![0xa8, 0x08]);
        };
        let mut mask: [u8; 4] = code.get(at..at + 4)?.try_into().ok()?;
        mask[0] |= 0x08;
        Some([&[0xa9][..], &mask].concat())
    }
}

/// No-ops of one byte and of two, a look at the flags, and a jump back.
fn one_block(length: usize, look: &[u8]) -> Option<Vec<u8>> {
    let looking = FLAGS.len() + look.len() + 2;
    let (bytes, no_ops) = (length.checked_sub(looking)?, TURN - LOOKING);
    let of_two = bytes.checked_sub(no_ops)?;
    let of_one = no_ops.checked_sub(of_two)?;
    // One of one byte, and four of two, end where the loop is entered.
    if of_one == 0 || of_two < (ENTER - 1) / 2 {
        return None;
    }
    let mut block = vec![0x90];
    block.extend([0x66, 0x90].repeat(of_two));
    block.resize(bytes, 0x90);
    block.extend(FLAGS);
    block.extend(look);
    let back = i8::try_from(length).ok()?.checked_neg()?;
    block.extend([0x74, back.cast_unsigned()]);
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's linux-image-6.1.0-56-rt-amd64, from the first look at the flags on.
    const RT: &[u8] = b"\x48\x8b\x03\xa8\x08\x74\x0b\xeb\x26\xf3\x90\x48\x8b\x03\xa8\x08\x75\x1d\x48\x8b\
        \x03\xa9\x00\x00\x08\x00\x75\x13\x8b\x0d\x08\x0e\x1f\x01\x85\xc9\x75\xe3\xe8\x0f\x1e\x71\xff\x85\xc0\
        \x75\xda\xe8\x46\xd3\xfe\xff";
    /// linux-image-6.1.0-56-amd64.
    const STANDARD: &[u8] = b"\x48\x8b\x03\xa8\x08\x74\x0b\xeb\x1c\xf3\x90\x48\x8b\x03\xa8\x08\x75\x13\
        \x8b\x05\x12\x35\x1e\x01\x85\xc0\x75\xed\xe8\xb9\xe9\x70\xff\x85\xc0\x75\xe4\xe8\x40\xf7\xfe\xff";
    const PAUSE: usize = 9;

    /// The instructions of a block of these few kinds: where each begins, and its bytes.
    fn instructions(block: &[u8]) -> Vec<(usize, &[u8])> {
        let mut at = 0;
        let mut all = Vec::new();
        while at < block.len() {
            let length = match block[at] {
                0x90 => 1,
                0x66 | 0x74 | 0xa8 => 2,
                0x48 => 3,
                0xa9 => 5,
                other => panic!("{other:#x} at {at}"),
            };
            all.push((at, &block[at..at + length]));
            at += length;
        }
        assert_eq!(at, block.len());
        all
    }

    #[test]
    fn a_turn_has_as_many_instructions_in_each_kernel_and_is_entered_at_one() {
        for (code, length, look) in [
            (RT, 38, &b"\xa9\x08\x00\x08\x00"[..]),
            (STANDARD, 28, b"\xa8\x08"),
        ] {
            let block = merged(code, PAUSE).expect("a loop");
            assert_eq!(block.len(), length);
            let all = instructions(&block);
            assert_eq!(all.len(), TURN);
            assert!(all.iter().any(|(at, _)| *at == ENTER), "{all:?}");
            let [no_ops @ .., (_, flags), (_, test), (jump, back)] = &all[..] else {
                panic!("{all:?}");
            };
            let does_nothing = |it: &&[u8]| *it == [0x90] || *it == [0x66, 0x90];
            assert!(no_ops.iter().all(|(_, it)| does_nothing(it)), "{all:?}");
            assert_eq!((*flags, *test), (&b"\x48\x8b\x03"[..], look));
            // To the block's first byte; or on, to what follows the loop.
            assert_eq!(back[1].cast_signed(), -(i8::try_from(jump + 2).unwrap()));
        }
    }

    #[test]
    fn a_loop_with_another_byte_is_none_of_them() {
        for code in [RT, STANDARD] {
            let length = merged(code, PAUSE).expect("a loop").len();
            let compiled = COMPILED.iter().find(|it| it.code.len() == length);
            let operands = compiled.expect("one").operands;
            let is_operand =
                |at: usize| operands.iter().any(|from| (*from..from + 4).contains(&at));
            for at in 0..PAUSE + length {
                let mut other = code.to_vec();
                other[at] ^= 1;
                assert_eq!(
                    merged(&other, PAUSE).is_some(),
                    at >= PAUSE && is_operand(at - PAUSE),
                    "{at}"
                );
            }
            for cut in 0..PAUSE + length {
                assert_eq!(merged(&code[..cut], PAUSE), None, "{cut}");
            }
            assert_eq!(merged(code, PAUSE - 1), None);
        }
        assert_eq!(merged(&[], 9), None);
    }
}
