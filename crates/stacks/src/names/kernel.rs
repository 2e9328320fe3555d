//! The kernel's functions, from `/proc/kallsyms`.
//!
//! In: its text. Out: the name at an address. The list has no sizes: a function ends where the next begins.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// The kernel's functions, by address.
#[derive(Debug, Default)]
pub struct Kernel {
    functions: Vec<Function>,
    /// Name after name. 150,000 of them take 3 MB.
    names: String,
    /// Why there are none.
    pub(crate) hidden: Option<String>,
}

/// Where a function begins, and where in the names its own is.
#[derive(Debug)]
struct Function {
    address: u64,
    begin: u32,
    length: u16,
}

impl Kernel {
    /// Reads `/proc/kallsyms`.
    pub(crate) fn read() -> Self {
        let read = File::open("/proc/kallsyms")
            .and_then(|file| Self::parse(BufReader::with_capacity(1 << 16, file)));
        read.unwrap_or_else(|error| {
            let hidden = format!("kernel functions have no names: cannot read /proc/kallsyms: {error}");
            Self { hidden: Some(hidden), ..Self::default() }
        })
    }

    /// `ffffffff81234560 t native_queued_spin_lock_slowpath [module]`, a tab before the module
    ///
    /// # Errors
    /// It cannot be read, or is no text.
    pub fn parse(mut text: impl BufRead) -> io::Result<Self> {
        let mut kernel = Self::default();
        let mut line = String::new();
        while text.read_line(&mut line)? > 0 {
            let mut fields = line.split_ascii_whitespace();
            let address = fields.next().and_then(|address| u64::from_str_radix(address, 16).ok());
            if let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) =
                (address, fields.next(), fields.next())
                && address != 0
                && let (Ok(begin), Ok(length)) = (kernel.names.len().try_into(), name.len().try_into())
            {
                kernel.functions.push(Function { address, begin, length });
                kernel.names.push_str(name);
            }
            line.clear();
        }
        // The first of several names for one address, as perf takes it.
        kernel.functions.sort_by_key(|function| function.address);
        kernel.functions.dedup_by_key(|function| function.address);
        if kernel.functions.is_empty() {
            kernel.hidden = Some(
                "kernel functions have no names: /proc/kallsyms shows zeroes; \
                 run as root, or set kernel.kptr_restrict to 0 or 1 and grant CAP_SYSLOG"
                    .to_owned(),
            );
        }
        Ok(kernel)
    }

    /// The function that holds an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let place = self.functions.partition_point(|function| function.address <= address).checked_sub(1)?;
        let Function { begin, length, .. } = self.functions[place];
        let begin = begin as usize;
        self.names.get(begin..begin + usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_holds_addresses_up_to_the_next() {
        let kernel = Kernel::parse(
            "ffffffff81000000 T _stext\nffffffff81000040 t futex_wait\nffffffff81000040 t alias\n\
             ffffffff81000080 D data\nffffffffc0000000 t ext4_sync\t[ext4]\n"
                .as_bytes(),
        )
        .unwrap();
        assert_eq!(kernel.name(0xffff_ffff_8100_003f), Some("_stext"));
        assert_eq!(kernel.name(0xffff_ffff_8100_0090), Some("futex_wait"));
        assert_eq!(kernel.name(0xffff_ffff_c000_0001), Some("ext4_sync"));
        assert_eq!(kernel.name(0x1000), None);
        assert_eq!(kernel.hidden, None);
    }

    #[test]
    fn zeroes_say_what_would_unlock_the_names() {
        let kernel =
            Kernel::parse("0000000000000000 T _stext\n0000000000000000 t futex_wait\n".as_bytes()).unwrap();
        assert!(
            kernel.hidden.as_ref().is_some_and(|why| why.contains("kptr_restrict")),
            "{:?}",
            kernel.hidden
        );
        assert_eq!(kernel.name(0xffff_ffff_8100_0000), None);
    }
}
