//! Memory of a program that runs for months: memory that it needs once must be given back.
//!
//! In: nothing. Out: the C library's allocator gives back free memory. By default it has a heap for each thread, and
//! memory that one thread used for a moment stays with that thread; and after the first large piece that is freed,
//! pieces of that size are kept, up to 64 MiB (`mallopt(3)`, `M_MMAP_THRESHOLD`). Of a recorder of 1,000 resting
//! connections 51 MiB were resident, 46 MiB with one heap, and 38 MiB with large pieces given back at once, for the
//! same CPU time.

/// What is larger is a piece of memory of its own, and goes back when it is freed: where the allocator begins.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: i32 = 128 << 10;

/// From now on the program keeps little of what it does not need. To be called before threads are started.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    for (what, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, LARGE_BYTES)] {
        #[expect(unsafe_code, reason = "the C library has no other way to set this")]
        // SAFETY: it sets a number of the allocator, which takes its own lock for that.
        let _was_taken = unsafe { libc::mallopt(what, value) };
    }
}
