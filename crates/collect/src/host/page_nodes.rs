//! On which memory nodes the pages of a large process lie, by a sample of them: `move_pages(2)` without a node to move to only
//! says where each page is.
//!
//! A walk of the page tables (`numa_maps`) holds the process's address space for as long as its largest mapping takes, and a
//! buffer pool is one mapping. Here the kernel looks up sixteen pages at a time (mm/migrate.c, `do_pages_stat`), and a thread
//! that wants to change the address space waits for no longer. 8,192 addresses cost some milliseconds, however large the process
//! is, and give each node's share within 1.1 points (95 % of samples).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Addresses that are looked up.
const ADDRESSES: usize = 8_192;
/// In one call.
const AT_ONCE: usize = 512;
/// After so long no other call is made.
const WITHIN: Duration = Duration::from_millis(50);
/// Fewer pages than these, of those that are in memory, are no sample: a share of them is off by more than seven points.
const LEAST_PAGES: u64 = 200;
/// The smallest page of the kernels that servers run on.
const PAGE: u64 = 4_096;

/// Memory of the process that it may write, as `/proc/PID/maps` lists it: from, to. That is nearly all that it allocated; of what
/// it reads of files nobody waits for the node.
pub fn parse_writable(text: &str) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let is_writable = words.next()?.starts_with("rw");
        let number = |text| u64::from_str_radix(text, 16).ok();
        let range = (number(from)?, number(to)?);
        (is_writable && range.0 < range.1).then_some(range)
    };
    text.lines().filter_map(range).collect()
}

/// Addresses spread over the ranges: one in each of so many equal parts, at no fixed distance, since pages that are interleaved
/// over nodes repeat themselves at one.
fn spread(ranges: &[(u64, u64)], count: usize) -> Vec<u64> {
    let pages: u64 = ranges.iter().map(|(from, to)| (to - from) / PAGE).fold(0, u64::saturating_add);
    let count = (count as u64).min(pages);
    // xorshift64 (Marsaglia 2003); its seed is of no importance.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random_below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound.max(1)
    };
    let mut addresses = Vec::with_capacity(count as usize);
    let mut ranges = ranges.iter();
    let (mut range, mut before) = (ranges.next(), 0);
    for part in 0..count {
        let at = |part: u64| (u128::from(pages) * u128::from(part) / u128::from(count)) as u64;
        let page = at(part) + random_below(at(part + 1) - at(part));
        while let Some((from, to)) = range {
            let of_range = (to - from) / PAGE;
            if page < before + of_range {
                addresses.push(from + (page - before) * PAGE);
                break;
            }
            before += of_range;
            range = ranges.next();
        }
    }
    addresses
}

/// How many of the sampled pages lie on each node; none where the kernel refuses, or too few of them are in memory.
pub(super) fn sample(pid: u32, ranges: &[(u64, u64)]) -> Option<BTreeMap<u32, u64>> {
    let pid = libc::c_int::try_from(pid).ok()?;
    let begun = Instant::now();
    let mut pages = BTreeMap::new();
    // Whole ranges are seen even where time runs out: each call takes addresses from all over them.
    let addresses = spread(ranges, ADDRESSES);
    let calls = addresses.len().div_ceil(AT_ONCE);
    for call in 0..calls {
        if begun.elapsed() > WITHIN {
            break;
        }
        let some: Vec<u64> = addresses.iter().skip(call).step_by(calls.max(1)).copied().collect();
        for node in nodes(pid, &some)? {
            *pages.entry(node).or_default() += 1;
        }
    }
    (pages.values().sum::<u64>() >= LEAST_PAGES).then_some(pages)
}

/// The nodes of those of these pages that are in memory; none where the kernel refuses.
fn nodes(pid: libc::c_int, addresses: &[u64]) -> Option<Vec<u32>> {
    let mut status: Vec<libc::c_int> = vec![-libc::ENOENT; addresses.len()];
    // SAFETY: the kernel reads as many addresses and writes as many numbers as the count says, which is the length of both. With
    // no nodes given (a null pointer) it moves nothing, and the addresses are the other process's: none is read through here.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            addresses.len() as libc::c_ulong,
            addresses.as_ptr(),
            std::ptr::null::<libc::c_int>(),
            status.as_mut_ptr(),
            0 as libc::c_int,
        )
    };
    // A page that is not in memory has an error in the place of its node.
    (result == 0).then(|| status.into_iter().filter_map(|node| u32::try_from(node).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::never_panics;
    use super::*;

    #[test]
    fn memory_that_is_written_is_listed_and_nothing_else() {
        let maps = "55d0c000-55d0d000 r-xp 00000000 08:01 7 /usr/sbin/mysqld\n\
                    55d0d000-55d0f000 rw-p 00001000 08:01 7 /usr/sbin/mysqld\n\
                    7f0000000000-7f0f00000000 rw-p 00000000 00:00 0 \n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        assert_eq!(parse_writable(maps), [(0x55d0_d000, 0x55d0_f000), (0x7f00_0000_0000, 0x7f0f_0000_0000)]);
        never_panics(parse_writable);
    }

    #[test]
    fn addresses_are_spread_over_all_ranges_and_at_no_fixed_distance() {
        let ranges = [(0x1000, 0x1000 + 100 * PAGE), (1 << 40, (1 << 40) + (60 << 30))];
        let addresses = spread(&ranges, ADDRESSES);
        assert_eq!(addresses.len(), ADDRESSES);
        assert!(addresses.is_sorted() && addresses.iter().all(|address| address % PAGE == 0));
        assert!(
            addresses.iter().all(|address| ranges.iter().any(|(from, to)| (from..to).contains(&address)))
        );
        // What is interleaved over 2, 4 or 8 nodes is seen so.
        for nodes in [2_u64, 4, 8] {
            let on_first = addresses.iter().filter(|address| (*address / PAGE).is_multiple_of(nodes)).count();
            let share = on_first as f64 / ADDRESSES as f64;
            assert!((share - 1.0 / nodes as f64).abs() < 0.02, "{nodes}: {share}");
        }
        assert_eq!(spread(&[(0x1000, 0x3000)], ADDRESSES), [0x1000, 0x2000], "each page once");
        assert_eq!(spread(&[], ADDRESSES), [] as [u64; 0]);
    }

    #[test]
    fn pages_of_this_process_are_found_and_those_it_never_touched_are_not() {
        let touched = vec![1_u8; 64 << 20];
        let from = (touched.as_ptr() as u64).next_multiple_of(PAGE);
        let begun = Instant::now();
        let Some(pages) = sample(std::process::id(), &[(from, from + (60 << 20))]) else {
            println!("skipped: the kernel does not let this process ask where its pages are");
            return;
        };
        println!("{pages:?} in {:?}", begun.elapsed());
        assert_eq!(pages.values().sum::<u64>(), ADDRESSES as u64);
        assert!(pages.keys().all(|node| *node < 64), "{pages:?}");
        assert_eq!(sample(std::process::id(), &[(PAGE, 200 * PAGE)]), None, "nothing lies there");
    }
}
