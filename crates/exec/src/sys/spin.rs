//! A loop whose instructions are counted.

/// Instructions of one turn of the loop.
pub const INSTRUCTIONS: u64 = 2;

/// Turns the loop this many times. Real-time safe: it touches no memory.
#[inline(never)]
pub fn spin(turns: u64) {
    if turns == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it only counts a register of its own down to 0.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2: dec {turns}",
            "jnz 2b",
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it only counts a register of its own down to 0.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2: subs {turns}, {turns}, #1",
            "b.ne 2b",
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    #[cfg(target_arch = "riscv64")]
    // SAFETY: it only counts a register of its own down to 0.
    unsafe {
        std::arch::asm!(
            "2: addi {turns}, {turns}, -1",
            "bnez {turns}, 2b",
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    #[cfg(not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )))]
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}
