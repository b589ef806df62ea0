//! A marker in the instruction stream, for an observer outside of the processor.

/// Marks the end of a wait with one instruction that does nothing. The laboratory's observer (a
/// plugin of an emulator) recognises its bytes. On architectures without such an instruction it
/// does nothing. Real-time safe.
#[inline(always)]
pub fn mark_wake_up() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a no-operation with an operand that is never read: `nopl 0x746b7570(%rax,%rax)`. It
    // changes no register, flag or memory. Not `nomem`, so that the compiler moves neither the
    // clock reading before it nor the stores after it.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00, 0x70, 0x75, 0x6b, 0x74",
            options(nostack, preserves_flags)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a no-operation: `movz xzr, #0x7570, lsl #48`. It changes no register, flag or memory.
    // Not `nomem`, as above.
    unsafe {
        std::arch::asm!(".inst 0xd2eeae1f", options(nostack, preserves_flags));
    }
}
