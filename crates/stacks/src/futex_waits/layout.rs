//! Where locks of glibc keep their owner: bytes in, owner out, pure.
//!
//! The same on x86-64 and aarch64. glibc's mutex is laid out so since 2.3 (`struct_mutex.h`), its rw-lock has the
//! words that count here in the same places since 2.3 too (`struct_rwlock.h`; 2.25 gave them other names), its
//! condition variable is the one of 2.25 (`thread-shared-types.h`).

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Nobody holds it: the waiting thread is about to be woken.
    Free,
    /// The thread of this id, in the process's pid namespace, or 0 where the lock does not hold it; and the number of
    /// readers.
    By { owner: u32, readers: u32 },
}

/// `__lock`, `__count`, `__owner` of `pthread_mutex_t`.
pub(super) const MUTEX_BYTES: usize = 12;

/// `pthread_rwlock_t` to `__cur_writer`.
pub(super) const RWLOCK_BYTES: usize = 28;

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}

/// The futex is `__lock`, its first word.
pub(super) fn mutex(bytes: &[u8; MUTEX_BYTES]) -> Held {
    match word(bytes, 0) {
        0 => Held::Free,
        _ => Held::By { owner: word(bytes, 8), readers: 0 },
    }
}

/// Where the rw-lock begins that has this futex. Waiting for writers to be through with it is waiting on word 2,
/// for another writer on word 3, and, where writers go first, on the count of readers, word 0. It is aligned to 8, so
/// the last is known by the address; the count by what is waited for: `pthread_rwlock_common.c` has 1, 2 or 3 in the
/// others, and at least one reader (from bit 3 on) in the count. Before 2.25 word 2 had a number that grows.
pub(super) fn rwlock_of(futex: u64, arguments: &[u64; 3]) -> u64 {
    const WAITING_IN_COUNT: u64 = 0b110;
    let expected = arguments[2] & 0xffff_ffff;
    match futex % 8 {
        4 => futex.wrapping_sub(12),
        _ if expected > 8 && expected & 0b111 == WAITING_IN_COUNT => futex,
        _ => futex.wrapping_sub(8),
    }
}

/// Readers from bit 3 of `__readers` on, bit 1 while a writer has it; its thread's id in `__cur_writer`.
pub(super) fn rwlock(bytes: &[u8; RWLOCK_BYTES]) -> Held {
    const WRITE_PHASE: u32 = 1;
    let (count, writers, writer) = (word(bytes, 0), word(bytes, 4), word(bytes, 24));
    // `writers` is the number of readers before 2.25.
    if count & !WRITE_PHASE == 0 && writers == 0 && writer == 0 {
        return Held::Free;
    }
    match writer {
        0 => Held::By { owner: 0, readers: count >> 3 },
        // Readers that are counted beside a writer wait for it.
        owner => Held::By { owner, readers: 0 },
    }
}

/// The mutex that a thread gave to `pthread_cond_wait`. What it puts on its stack to clean up after itself
/// (`struct _condvar_cleanup_buffer`) has how many waited there before, the condition variable, the mutex, and whether
/// other processes share them.
/// The futex is one of the two `__g_signals`, at 40 of the condition variable, or at 32 since 2.41.
pub(super) fn mutex_behind(futex: u64, stack: &[u8]) -> Option<u64> {
    const FUTEX_SHARED: u64 = 128;
    /// It goes up by two for each wait. What is larger is an address.
    const MOST_WAITS: u64 = 1 << 40;
    let conditions = [40, 32].map(|signals| futex.wrapping_sub(signals + futex % 8));
    let words: Vec<u64> = stack
        .chunks_exact(8)
        .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
        .collect();
    words.windows(4).find_map(|words| {
        let &[waited, condition, mutex, private] = words else { return None };
        let is_buffer = waited < MOST_WAITS
            && conditions.contains(&condition)
            && !conditions.contains(&mutex)
            && mutex != 0
            && mutex.is_multiple_of(8)
            && [0, FUTEX_SHARED].contains(&(private & 0xffff_ffff));
        is_buffer.then_some(mutex)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const BYTES: usize>(words: &[u32]) -> [u8; BYTES] {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.try_into().unwrap()
    }

    #[test]
    fn a_mutex_that_is_not_locked_has_no_owner_whatever_its_word_says() {
        assert_eq!(mutex(&bytes(&[2, 1, 4351])), Held::By { owner: 4351, readers: 0 });
        assert_eq!(mutex(&bytes(&[0, 0, 4351])), Held::Free);
        // PTHREAD_PRIO_INHERIT: the word has the owner's id, and a bit for those who wait.
        assert_eq!(mutex(&bytes(&[0x8000_10ff, 1, 4351])), Held::By { owner: 4351, readers: 0 });
    }

    #[test]
    fn a_rw_lock_is_found_from_each_of_the_three_words_that_are_waited_on() {
        assert_eq!(rwlock_of(0x7f0c, &[0x7f0c, 0x189, 3]), 0x7f00);
        assert_eq!(rwlock_of(0x7f08, &[0x7f08, 0x189, 3]), 0x7f00);
        assert_eq!(rwlock_of(0x7f08, &[0x7f08, 0x189, 2]), 0x7f00);
        // Three readers, others wait for a writer that goes first.
        assert_eq!(rwlock_of(0x7f00, &[0x7f00, 0x189, 3 << 3 | 0b110]), 0x7f00);
    }

    #[test]
    fn a_rw_lock_names_its_writer_or_counts_its_readers() {
        assert_eq!(rwlock(&bytes(&[0b11, 1, 1, 0, 0, 0, 4351])), Held::By { owner: 4351, readers: 0 });
        assert_eq!(rwlock(&bytes(&[3 << 3 | 2, 1, 2, 0, 0, 0, 0])), Held::By { owner: 0, readers: 3 });
        assert_eq!(rwlock(&bytes(&[1, 0, 1, 0, 0, 0, 0])), Held::Free);
        // CentOS 7: a free internal lock, no readers, four that wait, a writer.
        assert_eq!(rwlock(&bytes(&[0, 0, 7, 9, 4, 0, 4351])), Held::By { owner: 4351, readers: 0 });
    }

    #[test]
    fn the_mutex_behind_a_condition_is_named_beside_it_on_the_stack() {
        let stack: Vec<u8> = [9_u64, 0x7f40, 0x7f40, 0, 12, 0x7f40, 0x5580, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        for futex in [0x7f40 + 40, 0x7f40 + 44, 0x7f40 + 32, 0x7f40 + 36] {
            assert_eq!(mutex_behind(futex, &stack), Some(0x5580), "{futex:#x}");
        }
        assert_eq!(mutex_behind(0x7f80, &stack), None);
        assert_eq!(mutex_behind(0x7f40 + 40, &stack[..48]), None);
    }
}
