//! The kernel's list form of a CPU mask: `0-3,8,10-11`.

use std::collections::BTreeSet;

/// More CPUs than any kernel can be built for (`NR_CPUS` ends at 8,192).
const MOST_CPUS: u32 = 8_192;

/// CPU numbers, in order.
pub type CpuSet = BTreeSet<u32>;

/// Reads a list; empty text is the empty set, and None what is no list.
pub fn parse_cpu_list(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Writes a list.
pub fn format_cpu_list(cpus: &CpuSet) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |(first, last): (u32, u32)| {
        if first == last { format!("{first}") } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_and_single_cpus_are_listed() {
        assert_eq!(parse_cpu_list("0-2,8,10-11\n"), Some(CpuSet::from([0, 1, 2, 8, 10, 11])));
        assert_eq!(parse_cpu_list("\n"), Some(CpuSet::new()));
    }

    #[test]
    fn a_list_is_written_in_ranges() {
        for list in ["0-2,8,10-11", "7", ""] {
            assert_eq!(format_cpu_list(&parse_cpu_list(list).unwrap()), list);
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["3-1", "0-4294967295", "a", "1-", "0-3:1/2"] {
            assert_eq!(parse_cpu_list(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_set_written_as_a_list_is_read_back(cpus: BTreeSet<u16>) {
            let cpus: CpuSet = cpus.into_iter().map(u32::from).filter(|&cpu| cpu < MOST_CPUS).collect();
            let list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse_cpu_list(&list), Some(cpus.clone()));
            prop_assert_eq!(parse_cpu_list(&format_cpu_list(&cpus)), Some(cpus));
        }
    }
}
