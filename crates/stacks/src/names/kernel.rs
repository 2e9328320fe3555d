//! The kernel's functions, from `/proc/kallsyms`.
//!
//! In: its text. Out: the name at an address. The list has no sizes: a function ends where the next begins.

use std::fs;

/// The kernel's functions, by address.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    /// Address, and where in `names` the name begins.
    functions: Vec<(u64, u32)>,
    /// Name after name; each ends where the next begins. 150,000 of them take 3 MB.
    names: String,
    /// Why there are none.
    pub(crate) hidden: Option<String>,
}

impl Kernel {
    /// Reads `/proc/kallsyms`.
    pub(crate) fn read() -> Self {
        match fs::read_to_string("/proc/kallsyms") {
            Ok(text) => Self::parse(&text),
            Err(error) => {
                let hidden = format!("kernel functions have no names: cannot read /proc/kallsyms: {error}");
                Self { hidden: Some(hidden), ..Self::default() }
            }
        }
    }

    /// `ffffffff81234560 t native_queued_spin_lock_slowpath [module]`, a tab before the module
    fn parse(text: &str) -> Self {
        let mut lines: Vec<(u64, &str)> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_ascii_whitespace();
                let address = u64::from_str_radix(fields.next()?, 16).ok()?;
                let kind = fields.next()?;
                let name = fields.next()?;
                (matches!(kind, "t" | "T" | "w" | "W") && address != 0).then_some((address, name))
            })
            .collect();
        // The first of several names for one address, as perf takes it.
        lines.sort_by_key(|(address, _)| *address);
        lines.dedup_by_key(|(address, _)| *address);
        let mut kernel = Self::default();
        for (address, name) in lines {
            let Ok(begin) = u32::try_from(kernel.names.len()) else { break };
            kernel.functions.push((address, begin));
            kernel.names.push_str(name);
        }
        if kernel.functions.is_empty() {
            kernel.hidden = Some(
                "kernel functions have no names: /proc/kallsyms shows zeroes; \
                 run as root, or set kernel.kptr_restrict to 0 or 1 and grant CAP_SYSLOG"
                    .to_owned(),
            );
        }
        kernel
    }

    /// The function that holds an address.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let place = self.functions.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        let begin = self.functions[place].1 as usize;
        let end = self.functions.get(place + 1).map_or(self.names.len(), |(_, next)| *next as usize);
        self.names.get(begin..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_holds_addresses_up_to_the_next() {
        let kernel = Kernel::parse(
            "ffffffff81000000 T _stext\nffffffff81000040 t futex_wait\nffffffff81000040 t alias\n\
             ffffffff81000080 D data\nffffffffc0000000 t ext4_sync\t[ext4]\n",
        );
        assert_eq!(kernel.name(0xffff_ffff_8100_003f), Some("_stext"));
        assert_eq!(kernel.name(0xffff_ffff_8100_0090), Some("futex_wait"));
        assert_eq!(kernel.name(0xffff_ffff_c000_0001), Some("ext4_sync"));
        assert_eq!(kernel.name(0x1000), None);
        assert_eq!(kernel.hidden, None);
    }

    #[test]
    fn zeroes_say_what_would_unlock_the_names() {
        let kernel = Kernel::parse("0000000000000000 T _stext\n0000000000000000 t futex_wait\n");
        assert!(
            kernel.hidden.as_ref().is_some_and(|why| why.contains("kptr_restrict")),
            "{:?}",
            kernel.hidden
        );
        assert_eq!(kernel.name(0xffff_ffff_8100_0000), None);
    }
}
