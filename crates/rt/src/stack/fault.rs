//! `noaccess`: reports a thread's fatal memory access (SIGSEGV) before the next handler runs.
//!
//! The report comes first. The signal then goes where it would have gone without us: to the
//! previous handler, or to the kernel's default action, with unchanged registers and core file. A
//! handler that the program installs later replaces ours, and may call [`super::debug_report`]
//! for the same report.

#![expect(unsafe_code, reason = "a handler of SIGSEGV, and stacks for it")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::aside::aside;
use super::debug::traces;
use super::explain::Known;
use super::inspect::Part;
use super::names::Names;
use super::options::DebugOptions;
use super::report::{Turn, line};
use super::trace::Trace;
use crate::sys::map::{self, Access, errno, set_errno};

/// The previous signal action; written once, before our handler is installed.
struct Before(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once by `set_up`, before any thread reads it: `IS_SET` orders the accesses.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new(MaybeUninit::uninit()));
static IS_SET: AtomicBool = AtomicBool::new(false);
/// A previous handler with SA_RESETHAND has been called.
static IS_SPENT: AtomicBool = AtomicBool::new(false);

type Plain = extern "C" fn(c_int);
type Informed = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs the handler in front of the current one for SIGSEGV.
pub(super) fn set_up() {
    if IS_SET.load(Ordering::Acquire) {
        return;
    }
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: sigaction fills the struct that it is given.
    if unsafe { libc::sigaction(libc::SIGSEGV, null(), before.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled by the call above.
    let before = unsafe { before.assume_init() };
    // On the alternate stack only where the previous handler expects it.
    let other = match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => libc::SA_ONSTACK,
        // A signal from another process interrupts a system call as it would have without us.
        _ => before.sa_flags & (libc::SA_ONSTACK | libc::SA_RESTART),
    };
    // SAFETY: no thread reads it before IS_SET is set.
    unsafe { BEFORE.0.get().write(MaybeUninit::new(before)) };
    IS_SET.store(true, Ordering::Release);
    // SAFETY: all-zero is a value of the struct: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | other;
    set_up_stacks();
    // SAFETY: the handler lives as long as the library, which is never unloaded.
    if unsafe { libc::sigaction(libc::SIGSEGV, &action, null_mut()) } != 0 {
        line(libc::STDERR_FILENO, |out| {
            out.text(
                "punctual: no handler for SIGSEGV: accesses to guarded stacks are not explained",
            );
        });
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let kept = errno();
    // SAFETY: the kernel passes both to the handler; they live during the call.
    unsafe { explain(info, context) };
    set_errno(kept);
    // SAFETY: the arguments of this handler, unchanged.
    unsafe { pass_on(signal, info, context) };
}

/// # Safety
/// The arguments are those of a signal handler.
unsafe fn explain(info: *const libc::siginfo_t, context: *const c_void) {
    /// The address isn't mapped, or not for this kind of access.
    const KERNELS: [c_int; 2] = [1, 2];
    // SAFETY: the kernel's siginfo, alive during the handler.
    let code = unsafe { (*info).si_code };
    if !KERNELS.contains(&code) {
        return;
    }
    // SAFETY: the kernel's, alive during the handler.
    let info = unsafe { &*info };
    // SAFETY: a fault of these codes has an address.
    let address = unsafe { info.si_addr() } as usize;
    let Some(known) = Known::of(address) else {
        return;
    };
    // The program's own guard pages don't concern us.
    if known.is_in_use() && known.part == Part::Stack {
        return;
    }
    // SAFETY: the kernel's context of a handler with SA_SIGINFO, alive during the handler.
    let registers = unsafe { registers(context) };
    let mut fault = Fault {
        address,
        pointer: registers.map(|(_, pointer)| pointer),
        known,
        touched: Trace::empty(),
    };
    let _turn = Turn::take();
    let Some((code, pointer)) = registers else {
        aside(&mut fault, say);
        return;
    };
    fault.touched.fill_interrupted(code, false);
    aside(&mut fault, say);
    // Last, because the unwinder itself faults where the interrupted registers are invalid, and
    // that ends the process.
    if DebugOptions::in_force().audit > 0 && has_room_to_unwind(pointer) {
        fault.touched.fill_interrupted(code, true);
        aside(&mut fault, say_callers);
    }
}

struct Fault {
    address: usize,
    /// The thread's stack pointer, where it is known.
    pointer: Option<usize>,
    known: Known,
    touched: Trace,
}

fn say(fault: &mut Fault) {
    // SAFETY: gettid has no precondition.
    let thread = unsafe { libc::gettid() };
    let fd = libc::STDERR_FILENO;
    let mut names = Names::new();
    line(fd, |out| {
        out.text("punctual: SIGSEGV: thread ");
        out.number(usize::try_from(thread).unwrap_or(0));
        out.text(" touched ");
        out.address(fault.address);
        out.text(", ");
        fault.known.place(out);
    });
    if fault
        .pointer
        .is_some_and(|pointer| fault.known.is_overflow(pointer))
    {
        line(fd, |out| {
            out.text("  the thread runs on that stack: a stack overflow");
        });
    }
    if let Some(traces) = traces(fault.known.header) {
        traces.print_both(&mut names, fd);
    }
    if !fault.touched.is_empty() {
        fault.touched.print_interrupted("touched", &mut names, fd);
    }
}

fn say_callers(fault: &mut Fault) {
    let mut names = Names::more();
    fault.touched.print_callers(&mut names, libc::STDERR_FILENO);
}

/// A stack for handlers of this size or smaller has no room for the unwinder.
const LITTLE: usize = 32 << 10;

/// The unwinder reads the interrupted stack, and needs room on this one.
fn has_room_to_unwind(pointer: usize) -> bool {
    // When a stack overflows into its guard, the unwinder reads only above the guard.
    let stands_on_free = Known::of(pointer)
        .is_some_and(|known| !known.is_in_use() || known.part == Part::UpperGuard);
    let mut other = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: sigaltstack fills the struct that it is given.
    if stands_on_free || unsafe { libc::sigaltstack(null(), other.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: filled by the call above.
    let other = unsafe { other.assume_init() };
    other.ss_flags & libc::SS_ONSTACK == 0 || other.ss_size >= LITTLE
}

/// The interrupted instruction and the stack pointer, on architectures whose context we know.
///
/// # Safety
/// `context` is the one that the kernel passes to a handler.
unsafe fn registers(context: *const c_void) -> Option<(usize, usize)> {
    let context = context.cast::<libc::ucontext_t>();
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the kernel's context for this architecture, alive during the handler.
        let all = unsafe { &(*context).uc_mcontext.gregs };
        let register = |number: c_int| all[number as usize] as usize;
        Some((register(libc::REG_RIP), register(libc::REG_RSP)))
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the kernel's context for this architecture, alive during the handler.
        let all = unsafe { &(*context).uc_mcontext };
        Some((all.pc as usize, all.sp as usize))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        None
    }
}

/// Passes the signal on to where it would have gone without us.
///
/// # Safety
/// The arguments are those of our own handler, which returns next.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: written before our handler was installed, and not written again.
    let before = unsafe { &*BEFORE.0.get() };
    // SAFETY: sigaction filled it before IS_SET was set.
    let before = unsafe { before.assume_init_ref() };
    // SAFETY: the kernel's siginfo, alive during the handler.
    let was_sent = unsafe { (*info).si_code } <= 0;
    let is_once = before.sa_flags & libc::SA_RESETHAND != 0;
    let handler = match before.sa_sigaction {
        libc::SIG_IGN if was_sent => return,
        libc::SIG_DFL | libc::SIG_IGN => None,
        _ if is_once && IS_SPENT.swap(true, Ordering::AcqRel) => None,
        handler => Some(handler),
    };
    let Some(handler) = handler else {
        // The instruction runs again, and the kernel ends the process with the registers of the fault.
        // SAFETY: sets the default action, which has no handler function.
        let refused = unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR;
        if refused && !was_sent {
            // In a sandbox that forbids sigaction(): the kernel ends a process whose thread faults while it
            // blocks the fault's signal.
            // SAFETY: the kernel's context, alive until the handler returns.
            let blocked = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_sigmask };
            // SAFETY: a filled set, which takes effect when the handler returns.
            unsafe { libc::sigaddset(blocked, signal) };
        }
        if was_sent {
            // SAFETY: sent to the calling thread, which blocks it until the handler returns.
            unsafe { libc::raise(signal) };
        }
        return;
    };
    // Apply the signal mask and SA_NODEFER of the previous handler. The kernel restores the mask when
    // our handler returns, and a handler that jumps away restores one itself.
    // SAFETY: `sa_mask` was filled by sigaction.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &before.sa_mask, null_mut()) };
    if before.sa_flags & libc::SA_NODEFER != 0 {
        let mut own = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: filled by the call.
        unsafe { libc::sigemptyset(own.as_mut_ptr()) };
        // SAFETY: initialised above.
        unsafe { libc::sigaddset(own.as_mut_ptr(), signal) };
        // SAFETY: initialised above.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, own.as_ptr(), null_mut()) };
    }
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler that was installed with SA_SIGINFO has this type.
        let handler = unsafe { transmute::<usize, Informed>(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: a handler that was installed without SA_SIGINFO has this type.
        let handler = unsafe { transmute::<usize, Plain>(handler) };
        handler(signal);
    }
}

/// The size of a thread's stack for handlers: the kernel's frame with the widest registers, a
/// report, and the unwinder.
const ROOM: usize = 64 << 10;
const NO_KEY: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);

fn set_up_stacks() {
    let mut key = 0;
    // SAFETY: the key is written before the call returns; `thread_ends` takes the values that
    // `watch` sets.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } == 0 {
        KEY.store(key, Ordering::Release);
    }
}

/// Gives the calling thread a stack for handlers, if it has none or a small one: the thread may
/// run on a stack that is freed, where the kernel could not call our handler. Called by each
/// thread that allocates or frees a stack, and by each that this library starts. No system call
/// unless `noaccess` is enabled.
pub fn watch() {
    let key = KEY.load(Ordering::Acquire);
    // SAFETY: a key, once created, exists for the life of the process.
    if key == NO_KEY || !unsafe { libc::pthread_getspecific(key) }.is_null() {
        return;
    }
    let mut has = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: sigaltstack fills the struct that it is given.
    if unsafe { libc::sigaltstack(null(), has.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled by the call above.
    let has = unsafe { has.assume_init() };
    let is_in_use = has.ss_flags & libc::SS_ONSTACK != 0;
    if is_in_use || has.ss_flags & libc::SS_DISABLE == 0 && has.ss_size >= LITTLE {
        return;
    }
    let Ok(place) = map::reserve(ROOM) else {
        return;
    };
    let given = libc::stack_t {
        ss_sp: place.as_ptr().cast(),
        ss_flags: 0,
        ss_size: ROOM,
    };
    // SAFETY: the mapping was created above, and nothing else has its address.
    let is_open = unsafe { map::protect(place, ROOM, Access::ReadWrite) }.is_ok();
    // SAFETY: the key exists, and `thread_ends` takes this value.
    let is_kept = is_open && unsafe { libc::pthread_setspecific(key, given.ss_sp) } == 0;
    // SAFETY: the memory stays the thread's until the thread ends.
    if is_kept && unsafe { libc::sigaltstack(&given, null_mut()) } == 0 {
        return;
    }
    // SAFETY: the key exists, as for the call that set the value.
    unsafe { libc::pthread_setspecific(key, null()) };
    // SAFETY: mapped above, and not used as a stack since sigaltstack failed.
    let _ = unsafe { map::unmap(place, ROOM) };
}

extern "C" fn thread_ends(place: *mut c_void) {
    let mut has = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: sigaltstack fills the struct that it is given.
    if unsafe { libc::sigaltstack(null(), has.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled by the call above.
    let mut has = unsafe { has.assume_init() };
    if has.ss_sp == place {
        has.ss_flags = libc::SS_DISABLE;
        // SAFETY: the thread doesn't run on it: no signal handler calls this function.
        unsafe { libc::sigaltstack(&has, null_mut()) };
    }
    if let Some(place) = std::ptr::NonNull::new(place.cast()) {
        // SAFETY: `watch` mapped it for this thread, which has no alternate stack any more.
        let _ = unsafe { map::unmap(place, ROOM) };
    }
}
