//! `noaccess`: what a thread touched that ends by SIGSEGV, before the next handler is called.
//!
//! The report comes first, and the signal then goes where it would have gone without us: to the
//! handler that was there before, or to the kernel's default, with registers and core file as
//! they were. A handler that the program installs later replaces ours, and may ask for the same
//! report by [`super::debug_report`].

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

/// What handled the signal before; written once, before our handler is there.
struct Before(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once by `set_up`, before a thread can read it: `IS_SET` orders that.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new(MaybeUninit::uninit()));
static IS_SET: AtomicBool = AtomicBool::new(false);
/// A handler that wanted to be called once was.
static IS_SPENT: AtomicBool = AtomicBool::new(false);

type Plain = extern "C" fn(c_int);
type Informed = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Puts the handler before what handles SIGSEGV now.
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
    // On another stack only where that is what the handler before expects.
    let other = match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => libc::SA_ONSTACK,
        // A signal that another process sends interrupts a system call as it would have.
        _ => before.sa_flags & (libc::SA_ONSTACK | libc::SA_RESTART),
    };
    // SAFETY: nobody reads it before IS_SET.
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
            out.text("punctual: SIGSEGV can't be caught: touched stacks aren't explained");
        });
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let kept = errno();
    // SAFETY: the kernel gives both, alive during the call.
    unsafe { explain(info, context) };
    set_errno(kept);
    // SAFETY: as it was given to this handler.
    unsafe { pass_on(signal, info, context) };
}

/// # Safety
/// What the kernel gives a handler.
unsafe fn explain(info: *const libc::siginfo_t, context: *const c_void) {
    /// The address isn't mapped, or not for this.
    const KERNELS: [c_int; 2] = [1, 2];
    // SAFETY: the kernel's.
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
    // The program's own guards are its own matter.
    if known.is_in_use() && known.part == Part::Stack {
        return;
    }
    // SAFETY: the kernel's, for a handler with information.
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
    // Last: where the interrupted registers lead nowhere, the unwinder faults too, and that ends
    // the process.
    if DebugOptions::in_force().audit > 0 && has_room_to_unwind(pointer) {
        fault.touched.fill_interrupted(code, true);
        aside(&mut fault, say_callers);
    }
}

struct Fault {
    address: usize,
    /// Where its thread's stack pointer is, where that is known.
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

/// So small a stack for handlers has no room for the unwinder.
const LITTLE: usize = 32 << 10;

/// The unwinder reads the stack that was interrupted, and wants some room on this one.
fn has_room_to_unwind(pointer: usize) -> bool {
    // Of a stack that overflows into its guard, what the unwinder reads lies above that.
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

/// The interrupted instruction and the stack pointer, where we know how a context has them.
///
/// # Safety
/// `context` is what the kernel gives a handler.
unsafe fn registers(context: *const c_void) -> Option<(usize, usize)> {
    let context = context.cast::<libc::ucontext_t>();
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the kernel's, alive during the handler.
        let all = unsafe { &(*context).uc_mcontext.gregs };
        let register = |number: c_int| all[number as usize] as usize;
        Some((register(libc::REG_RIP), register(libc::REG_RSP)))
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the kernel's, alive during the handler.
        let all = unsafe { &(*context).uc_mcontext };
        Some((all.pc as usize, all.sp as usize))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        None
    }
}

/// The signal goes where it would have gone without us.
///
/// # Safety
/// The arguments are those of our own handler, which returns next.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: written before our handler was installed, and never again.
    let before = unsafe { &*BEFORE.0.get() };
    // SAFETY: as it was written: filled.
    let before = unsafe { before.assume_init_ref() };
    // SAFETY: the kernel's, alive during the handler.
    let was_sent = unsafe { (*info).si_code } <= 0;
    let is_once = before.sa_flags & libc::SA_RESETHAND != 0;
    let handler = match before.sa_sigaction {
        libc::SIG_IGN if was_sent => return,
        libc::SIG_DFL | libc::SIG_IGN => None,
        _ if is_once && IS_SPENT.swap(true, Ordering::AcqRel) => None,
        handler => Some(handler),
    };
    let Some(handler) = handler else {
        // The instruction is run again, and ends the process: with its own registers.
        // SAFETY: the default action, which has no handler.
        let refused = unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR;
        if refused && !was_sent {
            // In a sandbox that forbids sigaction(). The kernel ends a process by a fault whose
            // signal is blocked.
            // SAFETY: the kernel's, alive until the handler returns.
            let blocked = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_sigmask };
            // SAFETY: a filled set, which the kernel puts into force then.
            unsafe { libc::sigaddset(blocked, signal) };
        }
        if was_sent {
            // SAFETY: to the calling thread, for which it is blocked until the handler returns.
            unsafe { libc::raise(signal) };
        }
        return;
    };
    // What it wanted blocked, and whether it wanted to be interrupted by itself. The kernel puts
    // the mask back when our handler returns, and a handler that jumps away brings its own.
    // SAFETY: a filled mask.
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

/// Bytes of a thread's stack for handlers: what the kernel puts there for the widest registers,
/// a report, and the unwinder.
const ROOM: usize = 64 << 10;
const NO_KEY: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);

fn set_up_stacks() {
    let mut key = 0;
    // SAFETY: the key is written before the call returns; the function takes what `watch` sets.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } == 0 {
        KEY.store(key, Ordering::Release);
    }
}

/// Gives the calling thread a stack for handlers, if it has none or a small one: it may stand on a
/// stack that is freed, where the kernel could not call ours. A thread that allocates or frees
/// passes here, and one that this library starts. No system call where `noaccess` isn't in force.
pub fn watch() {
    let key = KEY.load(Ordering::Acquire);
    // SAFETY: a key that exists does so for the life of the process.
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
    // SAFETY: the mapping was made here, and nobody else knows it.
    let is_open = unsafe { map::protect(place, ROOM, Access::ReadWrite) }.is_ok();
    // SAFETY: the key exists, and `thread_ends` takes such a value.
    let is_kept = is_open && unsafe { libc::pthread_setspecific(key, given.ss_sp) } == 0;
    // SAFETY: the memory is the thread's until it ends.
    if is_kept && unsafe { libc::sigaltstack(&given, null_mut()) } == 0 {
        return;
    }
    // SAFETY: the key exists.
    unsafe { libc::pthread_setspecific(key, null()) };
    // SAFETY: mapped above, and used by nobody.
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
        // SAFETY: the thread doesn't run on it: no handler calls this.
        unsafe { libc::sigaltstack(&has, null_mut()) };
    }
    if let Some(place) = std::ptr::NonNull::new(place.cast()) {
        // SAFETY: `watch` mapped it for this thread, whose handlers don't use it any more.
        let _ = unsafe { map::unmap(place, ROOM) };
    }
}
