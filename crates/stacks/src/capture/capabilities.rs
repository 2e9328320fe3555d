//! What the kernel lets this process do: the effective set of capabilities(7), from `/proc/self/status`.

/// A capability: its bit and name, from include/uapi/linux/capability.h.
pub(super) type Capability = (u32, &'static str);

pub(super) const DAC_READ_SEARCH: Capability = (2, "CAP_DAC_READ_SEARCH");
pub(super) const SYS_PTRACE: Capability = (19, "CAP_SYS_PTRACE");
pub(super) const PERFMON: Capability = (38, "CAP_PERFMON");
pub(super) const BPF: Capability = (39, "CAP_BPF");
const SYS_ADMIN: Capability = (21, "CAP_SYS_ADMIN");

/// The names of those that this process has not.
pub(super) fn missing(wanted: &[Capability]) -> Vec<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = effective(&status);
    let has = |(bit, _): Capability| held >> bit & 1 != 0;
    wanted
        .iter()
        .filter(|&&one| !has(one))
        // It stands in for these two, as it did before they came (5.8).
        .filter(|&&one| one != BPF && one != PERFMON || !has(SYS_ADMIN))
        .map(|&(_, name)| name)
        .collect()
}

/// `CapEff: 000001ffffffffff`
fn effective(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_in_hexadecimal() {
        let held = effective("CapPrm:\t0000000000000000\nCapEff:\t000000c000080000\n");
        assert_eq!(held, 1 << 39 | 1 << 38 | 1 << 19);
    }
}
