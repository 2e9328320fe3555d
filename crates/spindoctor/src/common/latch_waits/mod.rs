//! How long threads wait for InnoDB's latches, and for how long to spin on them: measured by probes for `stacks --latch-waits`, which
//! shows it, and for `tune --watch --by-waits`, which follows it.

mod change;
mod report;

use spindoctor_stacks::capture::waits::{WaitFunction, WaitProbes};

pub use change::Change;
#[cfg(test)]
pub use report::examples;
pub use report::{Choice, Latch, LatchReport, Measured, SpinRounds};

/// Where InnoDB spins before it sleeps. MySQL, and MariaDB before 10.6 (sync0rw.cc, ib0mutex.h; sync0sync.cc before 5.7): the
/// slow paths of its rw-locks and mutexes. `rw_lock_x_lock_func` and its sister are called where there is nothing to wait
/// for, too. MariaDB 10.6 and later (srw_lock.cc): the variants that spin, which only mangled names tell from the others.
const LATCHES: &[WaitFunction] = &[
    latch("rw_lock_s_lock_spin", "rw_lock_s_lock_spin"),
    latch("rw_lock_x_lock_func", "rw_lock_x_lock_func"),
    latch("rw_lock_sx_lock_func", "rw_lock_sx_lock_func"),
    latch("TTASEventMutex::spin_and_try_lock", "TTASEventMutex::spin_and_try_lock"),
    latch("mutex_spin_wait", "mutex_spin_wait"),
    latch("srw_mutex_impl::wait_and_lock", "_ZN14srw_mutex_implILb1EE13wait_and_lockEv"),
    latch("ssux_lock_impl::rd_wait", "_ZN14ssux_lock_implILb1EE7rd_waitEv"),
    latch("ssux_lock_impl::wr_wait", "_ZN14ssux_lock_implILb1EE7wr_waitEj"),
];

/// What those call to sleep: the first that a server has. MariaDB 10.6 and later ask the kernel for a futex themselves.
const SLEEPS: &[&str] = &["sync_array_wait_event", "syscall"];

const fn latch(name: &'static str, symbol: &'static str) -> WaitFunction {
    WaitFunction { name, symbol }
}

/// Probes for the latches of a server's process; none is set yet.
///
/// # Errors
/// No such process, none of the functions in it, or the kernel refuses.
pub fn probes(pid: u32) -> Result<WaitProbes, spindoctor_stacks::Error> {
    WaitProbes::new(pid, LATCHES, SLEEPS)
}
