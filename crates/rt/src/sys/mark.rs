//! A mark in the stream of instructions, for who watches a processor from without.

/// Marks that a wait has just ended: one instruction that does nothing. The laboratory's
/// observer (an emulator's plugin) knows it by its bytes. Where there is no such
/// instruction it is nothing at all. Real-time safe.
#[inline(always)]
pub fn woken() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a no-operation with an operand that is never read: `nopl 0x746b7570(%rax,%rax)`.
    // It changes no register, no flag and no memory. Not `nomem`, so that the clock's reading
    // before it and what is stored after it stay where they are.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00, 0x70, 0x75, 0x6b, 0x74",
            options(nostack, preserves_flags)
        );
    }
}
